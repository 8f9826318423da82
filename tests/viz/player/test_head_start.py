"""What stands below a player waits for its first picture: once per session, and not for a reader who acts."""

import time
from types import SimpleNamespace

from streamlit.runtime.scriptrunner import RerunData, get_script_run_ctx
from streamlit.testing.v1 import AppTest

from viz.player import component


def page():
    import streamlit as st

    from viz.player.component import give_head_start

    st.text("player")
    give_head_start()
    st.text("charts")


def use_sleep(monkeypatch, sleep):
    """Let the player's module, and no other, sleep in this way."""
    monkeypatch.setattr(component, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))


def test_only_the_first_run_of_a_session_waits(monkeypatch):
    slept = []
    use_sleep(monkeypatch, slept.append)
    monkeypatch.setattr(component, "HEAD_START_S", 0.01)
    app = AppTest.from_function(page).run()
    assert slept
    slept.clear()
    assert [text.value for text in app.run().text] == ["player", "charts"]
    assert not slept


def test_a_newer_run_ends_the_wait(monkeypatch):
    use_sleep(monkeypatch, lambda _: get_script_run_ctx().script_requests.request_rerun(RerunData()))
    monkeypatch.setattr(component, "HEAD_START_S", 1e9)
    app = AppTest.from_function(page, default_timeout=10).run()
    assert [text.value for text in app.text] == ["player", "charts"]
