"""The Talk page and the option --talk."""

import sys

import pytest

from kernels.worker.requests import TraceRequest
from tests.app.pages import drawn_with_results, open_page
from viz.talk.shipped import NAMES

pytestmark = pytest.mark.usefixtures("own_store")

UNRECORDED = """[[scene]]
title = "One"
sentence = "{steps} steps"
problem = { q_len = 32, kv_len = 32, head_dim = 16, block_m = 16, block_n = 16 }
step = "2"
"""
DUEL = UNRECORDED.replace("step =", 'versus = { algorithm = "flash1" }\nstep =').replace('"2"', '"bytes:2"')
RECORDED = '[[scene]]\ntitle = "Two"\nsentence = "{steps} steps"\nproblem = "tiny"\n'
CHART = '[[scene]]\ntitle = "Three"\nsentence = "{ours} at {last}"\nchart = { head_dim = 96 }\n'


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Writes the user's talk of some scenes, and names it as the command line does."""

    def write(*scenes):
        path = tmp_path / "my_talk.toml"
        path.write_text("\n".join(['title = "My talk"', *scenes]))
        monkeypatch.setattr(sys, "argv", ["app.py", "--talk", str(path)])
        return path

    return write


def listed():
    """The list of talks: the page, and whether the user's own can go on stage and be taken along."""
    app = open_page("talk")
    assert not app.exception
    on_stage = [button.key for button in app.button if button.label == "On stage"]
    assert on_stage[-len(NAMES) :] == [f"stage-{name}" for name in NAMES]
    files = [each.label for each in app.get("download_button")]
    return app, "stage-own" in on_stage, len(files) == 2 * len(NAMES) + 2


def errors(app):
    """What is wrong, as Markdown shows it."""
    return " ".join(each.value for each in app.error).replace("\\", "")


def test_an_unknown_talk_is_refused_with_the_names_of_all():
    app = open_page("talk", name="none")
    assert NAMES[0] in errors(app)
    assert app.button


@pytest.mark.parametrize(
    ("scenes", "where"),
    [
        ([RECORDED], ""),
        ([RECORDED, UNRECORDED], "scene 2"),
        ([UNRECORDED, RECORDED, UNRECORDED], "scene 1, 3"),
        ([DUEL], "scene 1"),
    ],
)
def test_a_talk_is_a_file_too_if_all_its_runs_were_recorded_and_else_the_list_says_why(own, scenes, where):
    own(*scenes)
    app, on_stage, as_file = listed()
    assert not app.error
    assert (on_stage, as_file) == (True, not where)
    said = [each.value for each in app.caption if "not recorded" in each.value]
    assert [where in words for words in said] == [True] * bool(where)


@pytest.mark.parametrize(
    ("scenes", "field"),
    [
        ([RECORDED.replace("{steps}", "{stepz}")], "scene 1 “Two”, sentence: {stepz}"),
        ([RECORDED + 'step = "999"\n'], "scene 1 “Two”, step: '999'"),
        ([CHART], "scene 1 “Three”, chart: naive, sdpa_flash, ours"),
        ([UNRECORDED, CHART], "scene 2 “Three”, chart: naive, sdpa_flash, ours"),  # before scene 1 is run
        ([RECORDED, "colour = 3"], "scene 1 “Two”, Object contains unknown field"),
    ],
)
def test_a_talk_with_a_mistake_is_not_offered(own, scenes, field):
    own(*scenes)
    app, on_stage, as_file = listed()
    assert f"my_talk.toml, {field}" in errors(app)
    assert (on_stage, as_file) == (False, False)


def test_ones_own_talk_opens_and_its_problem_is_run_here(own):
    path = own(UNRECORDED)
    app = drawn_with_results(open_page("talk", name="own"), TraceRequest)
    assert not app.exception
    assert not app.error
    assert not app.button
    path.unlink()
    assert "my_talk.toml: " in errors(open_page("talk", name="own"))


def test_the_command_line_begins_the_talk_once(own):
    own(UNRECORDED)
    app = open_page()
    assert not app.exception
    assert app.query_params["name"] == "own"
    for app in (open_page(q_len=64), open_page("learn"), open_page("talk")):  # a link is followed
        assert not app.exception
        assert "name" not in app.query_params
