"""The Talk page and the option --talk."""

import sys

import pytest

from kernels.worker.requests import TraceRequest
from tests.app.pages import drawn_with_results, open_page
from viz.talk.shipped import NAMES

pytestmark = pytest.mark.usefixtures("stop_the_worker")

OWN = """title = "My talk"
[[scene]]
title = "One"
sentence = "{steps} steps"
problem = { q_len = 32, kv_len = 32, head_dim = 16, block_m = 16, block_n = 16 }
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Writes the user's talk, and names it as the command line does."""

    def write(text=OWN):
        path = tmp_path / "my_talk.toml"
        path.write_text(text)
        monkeypatch.setattr(sys, "argv", ["app.py", "--talk", str(path)])
        return path

    return write


def words(app):
    return " ".join(each.value for each in (*app.markdown, *app.caption, *app.error))


def error(app):
    """The first error, as Markdown shows it."""
    return app.error[0].value.replace("\\", "")


def test_the_list_names_every_shipped_talk():
    app = open_page("talk")
    assert not app.exception
    assert len([button for button in app.button if button.label == "On stage"]) == len(NAMES)
    assert "6 scenes, 5 minutes" in words(app)


def test_the_button_opens_the_stage():
    app = open_page("talk")
    app.button(f"stage-{NAMES[2]}").click().run()
    assert not app.exception
    assert app.query_params["name"] == NAMES[2]
    assert not app.button


def test_an_unknown_talk_is_refused_with_the_names_of_all():
    app = open_page("talk", name="none")
    assert NAMES[0] in error(app)
    assert app.button


def test_ones_own_talk_opens_and_its_problem_is_run_here(own):
    own()
    app = drawn_with_results(open_page("talk", name="own"), TraceRequest)
    assert not app.exception
    assert not app.error
    assert not app.button


def test_what_is_wrong_with_ones_own_talk_is_said(own):
    own(OWN.replace("{steps}", "{stepz}"))
    app = drawn_with_results(open_page("talk", name="own"), TraceRequest)
    assert "my_talk.toml, scene 1 “One”, sentence: {stepz}" in error(app)
    own(OWN + "colour = 3\n")
    assert "colour: this field is not known" in error(open_page("talk"))
    own().unlink()
    assert "my_talk.toml: the file cannot be read" in error(open_page("talk", name="own"))


RECORDED = 'title = "My talk"\n[[scene]]\ntitle = "One"\nsentence = "{steps}"\nproblem = "tiny"\n'


def test_the_list_offers_a_file_of_a_talk_that_the_stage_takes_and_else_says_what_is_wrong(own):
    labels = ["One HTML file", "With the speaker's notes"]
    own(RECORDED)
    app = open_page("talk")
    assert [each.label for each in app.get("download_button")] == labels * (len(NAMES) + 1)
    own(RECORDED.replace("{steps}", "{stepz}"))
    app = open_page("talk")
    assert not app.exception
    assert "my_talk.toml, scene 1 “One”, sentence: {stepz}" in error(app)
    assert [each.label for each in app.get("download_button")] == labels * len(NAMES)


def test_the_command_line_begins_the_talk_once(own):
    own()
    app = open_page()
    assert not app.exception
    assert app.query_params["name"] == "own"
    app = open_page(q_len=64)  # a link into Explore is followed
    assert "name" not in app.query_params
    for path in ("learn", "talk"):  # and so is one to a page
        app = open_page(path)
        assert not app.exception
        assert "name" not in app.query_params
