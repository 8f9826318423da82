"""The list of talks: what it says of a talk whose runs were not all recorded."""

import sys

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.device.gpus import GPUS
from kernels.recordings import recorded_problems, recorded_run
from tests.app.pages import open_page
from viz.player.scene_figures import run_figures
from viz.talk.shipped import NAMES

pytestmark = pytest.mark.usefixtures("stop_the_worker")

SCENE = """[[scene]]
title = "One"
sentence = "{steps} steps"
problem = { preset = "tiny", q_len = 48 }
step = "95"
"""
RECORDED = '[[scene]]\ntitle = "Two"\nsentence = "{steps} steps"\nproblem = "tiny"\n'
CHART = '[[scene]]\ntitle = "Three"\nsentence = "{ours} at {last}"\nchart = { head_dim = 96 }\n'


@pytest.fixture
def listed(tmp_path, monkeypatch):
    """Opens the list of talks with a talk of the user's own."""

    def opened(*scenes):
        path = tmp_path / "my_talk.toml"
        path.write_text("\n".join(['title = "My talk"', *scenes]))
        monkeypatch.setattr(sys, "argv", ["app.py", "--talk", str(path)])
        app = open_page("talk")
        assert not app.exception
        return app

    return opened


def errors(app):
    return " ".join(each.value for each in app.error).replace("\\", "")


@pytest.mark.parametrize(
    ("scenes", "words"),
    [
        ([RECORDED, SCENE], "what scene 2 shows was not recorded"),
        ([SCENE, RECORDED, SCENE], "what scenes 1, 3 show was not recorded"),
        (
            [SCENE.replace("step =", 'versus = { algorithm = "flash1" }\nstep =').replace("95", "steps:95")],
            "scene 1",
        ),
    ],
)
def test_a_talk_that_cannot_be_taken_along_as_a_file_says_why(listed, scenes, words):
    app = listed(*scenes)
    assert not app.error
    assert words in " ".join(each.value for each in app.caption)
    assert len(app.get("download_button")) == 2 * len(NAMES)
    assert app.button("stage-own").label == "On stage"


def test_a_recorded_talk_has_no_such_words(listed):
    app = listed(RECORDED)
    assert not [each for each in app.caption if "not recorded" in each.value]


@pytest.mark.parametrize(
    ("scenes", "message"),
    [
        ([RECORDED, SCENE.replace("{steps}", "{stepz}")], "scene 2 “One”, sentence: {stepz} is not a number"),
        ([SCENE.replace("{steps}", "{ours_time}")], "scene 1 “One”, sentence: {ours_time} is not a number"),
        ([SCENE, RECORDED + 'step = "999"\n'], "scene 2 “Two”, step: '999' is past the end"),
        ([SCENE, CHART], "scene 2 “Three”, chart: naive, sdpa_flash, ours was not recorded"),
    ],
)
def test_a_mistake_is_said_before_anything_has_run(listed, scenes, message):
    app = listed(*scenes)
    assert f"my_talk.toml, {message}" in errors(app)
    assert not [button for button in app.button if button.key == "stage-own"]


def test_a_run_that_stands_in_has_each_number_that_another_run_of_its_algorithm_has():
    """Else the list would refuse a name that the stage takes."""
    for algorithm in ALGORITHMS:
        first, *others = recorded_problems(algorithm) or [None]
        for other in others:
            known = set(run_figures(recorded_run(first, algorithm).trace, GPUS["H200"], None))
            assert set(run_figures(recorded_run(other, algorithm).trace, GPUS["H200"], None)) <= known
