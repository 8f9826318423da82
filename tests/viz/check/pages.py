"""The Check page by itself, and what it shows."""

import time

from streamlit.testing.v1 import AppTest

from tests import ROOT
from viz.shared import runs

SMALL = {"q_len": 48, "kv_len": 64, "block_m": 16, "block_n": 32, "head_dim": 16, "mask": "full", "seed": 1}


def close_store():
    store = runs.run_store()
    if store:
        store.client.close()
    runs.run_store.clear()


def page(timeout=60):
    """The Check page by itself, as navigation runs it; the URL is set on it before `run`."""
    return AppTest.from_file(ROOT / "viz" / "check" / "page.py", default_timeout=timeout)


def open_page(**query):
    store = runs.run_store()
    if store:
        assert store.client.wait_ready(60)
    app = page()
    for name, value in query.items():
        app.query_params[name] = str(value)
    return app.run()


def settled(app, until, limit_s=60):
    """Run again until the page shows what it waits for: fragments do not run by themselves here."""
    deadline = time.monotonic() + limit_s
    while not until(app) and time.monotonic() < deadline:
        time.sleep(0.2)
        app.run()
    assert until(app), [element.value for element in (*app.markdown, *app.error, *app.info)]
    return app


def words(app):
    shown = (*app.markdown, *app.caption, *app.error, *app.info)
    return "\n".join(element.value for element in shown).replace("\\", "")  # as Markdown shows them


def metrics(app):
    return {metric.label: (metric.value, metric.delta) for metric in app.metric}


def has_verdict(app):
    return any(
        "PASSES" in element.value or "FAILS" in element.value or "NOT CHECKED" in element.value
        for element in app.markdown
    )
