"""Scenes that are run during the talk: what the stage is answered. The worker is the real one."""

import time
from dataclasses import replace

import pytest

from kernels.problem.presets import PRESETS
from kernels.worker.failures import Cancelled, TimedOut
from kernels.worker.requests import TraceRequest
from tests.app.pages import fail_jobs
from viz.player.scene import RunName, parse_talk, read_talk
from viz.shared import runs
from viz.talk.live import answer
from viz.talk.shipped import NAMES, talk_path

pytestmark = pytest.mark.usefixtures("stop_the_worker")

TALK = parse_talk(
    """title = "t"
[[scene]]
title = "{steps} steps"
sentence = "On the {device}: {ours_time}"
problem = "gpt2"
step = "0"
stops = ["68.2", "136"]
live = { length = [64, 128, 1048576], head_dim = [16], mask = ["causal", "full"], tiles = [[16, 16]] }
[[scene]]
title = "Two"
sentence = "{steps} become {other_steps}"
problem = "gpt2"
versus = { algorithm = "flash1" }
view = "bytes"
stops = ["race:1000"]
live = { length = [64] }
[[scene]]
title = "Not live"
sentence = "s"
problem = "tiny"
""",
    "t.toml",
)


def answered(asked, window="a"):
    """The answer once the run is no longer under way."""
    store = runs.run_store()
    for _ in range(600):
        said = answer(lambda: TALK, asked, store, window)
        if "waits" not in said:
            return said
        time.sleep(0.05)
    raise AssertionError(said)


def test_a_scene_is_run_with_what_was_picked():
    said = answered({"id": "a", "scene": 0, "picks": {"length": 0, "head_dim": 0, "tiles": 0}})
    shown = said["shown"]
    (run,) = shown["own"]["runs"].values()
    assert said["id"] == "a"
    assert run["problem"]["q_len"] == run["problem"]["kv_len"] == 64
    assert run["problem"]["head_dim"] == 16
    assert "run here" in run["provenance"]
    assert run["steps"]["count"] == 4 + 3 + 2 + 1  # causal, 16 x 16: kept from the scene, and picked
    assert shown["title"] == "10 steps"
    assert [stop["step"] for stop in shown["stops"]] == ["0", "68.2", "136"]  # the stage moves them
    assert "_time" not in shown["sentence"]  # no time was measured of this run
    assert shown["sentence"].startswith("10 tile steps, ")


def test_both_runs_of_a_comparison_change():
    shown = answered({"id": "b", "scene": 1, "picks": {"length": 0}})["shown"]
    assert {run["problem"]["q_len"] for run in shown["own"]["runs"].values()} == {64}
    assert len(shown["own"]["runs"]) == 2
    assert list(shown["own"]["duels"]) == [shown["duel"]]
    assert [stop["step"] for stop in shown["stops"]] == ["race:0", "race:1000"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"scene": 0, "picks": {"length": 2}}, "would take about"),
        ({"scene": 0, "picks": {"length": 3}}, "expected the number of a value"),
        ({"scene": 2, "picks": {"length": 0}}, "expected the number of a value"),
        ({"scene": 3, "picks": {}}, "expected a scene from 0 to 2"),
        ({"scene": -1, "picks": {}}, "expected a scene from 0 to 2"),
        ({"scene": "0", "picks": {}}, "expected a scene"),
        ({"scene": 0, "picks": [1]}, "expected a scene"),
        ({}, "expected a scene"),
    ],
)
def test_what_cannot_be_is_answered_in_words(asked, message):
    said = answered({"id": "c", **asked})
    assert message in said["failed"]
    assert said["id"] == "c"


def test_a_scene_with_a_chart_has_no_run_to_change():
    talk = parse_talk('title = "t"\n[[scene]]\ntitle = "c"\nsentence = "s"\nchart = {}\n', "t.toml")
    assert "shows a chart" in answer(lambda: talk, {"id": "g", "scene": 0, "picks": {}}, None)["failed"]


def test_a_file_that_is_half_edited_is_answered_in_words(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('title = "t"\n[[scene]]\ntitle = "o')
    said = answer(lambda: read_talk(path), {"id": "h", "scene": 0, "picks": {}}, None)
    assert said["id"] == "h"
    assert said["failed"].startswith("mine.toml: this is not TOML")
    assert answer(lambda: read_talk(path), {"leaves": True}, None) is None


HOPPER = """title = "t"
[[scene]]
title = "o"
sentence = "s"
problem = "gpt2"
algorithm = "flash3"
live = { head_dim = [64, 256], tiles = [[128, 128]] }
"""


@pytest.mark.parametrize(
    ("picks", "message"),
    [
        ({"head_dim": 1, "tiles": 0}, "block_n=128 is not accepted: with head_dim 256"),
        ({"head_dim": 1}, "This was not recorded, and nothing can run here."),  # its own tiles are taken
    ],
)
def test_picks_that_the_algorithm_does_not_take_together_are_answered_in_words(picks, message):
    talk = parse_talk(HOPPER, "t.toml")
    assert message in answer(lambda: talk, {"id": "i", "scene": 0, "picks": picks}, None)["failed"]


def test_a_failure_is_told_and_the_next_question_starts_anew(monkeypatch):
    asked = {"id": "d", "scene": 0, "picks": {"length": 1}}
    fail_jobs(monkeypatch, TraceRequest, TimedOut(1.0))
    assert "time limit" in answered(asked)["failed"]
    monkeypatch.undo()
    assert "shown" in answered(asked)


def test_without_a_worker_only_recorded_problems_are_shown():
    said = answer(lambda: TALK, {"id": "e", "scene": 0, "picks": {"length": 0}}, None)
    assert said["failed"] == "This was not recorded, and nothing can run here."
    full = parse_talk(
        'title = "t"\n[[scene]]\ntitle = "o"\nsentence = "s"\nproblem = { preset = "gpt2", mask = "full" }\n'
        'live = { mask = ["full", "causal"] }\n',
        "t.toml",
    )
    base = RunName(PRESETS["gpt2"].problem, "flash2")
    recorded = replace(full, scenes=(replace(full.scenes[0], run=base),))
    assert "shown" in answer(lambda: recorded, {"id": "f", "scene": 0, "picks": {"mask": 1}}, None)


SLOW = TraceRequest(PRESETS["gpt2"].problem.with_(head_dim=16, mask="full", block_m=16, block_n=16), "flash2")
SLOWLY = {"id": "s", "scene": 0, "picks": {"head_dim": 0, "mask": 1, "tiles": 0}}
QUICKLY = {"id": "q", "scene": 0, "picks": {"length": 0, "head_dim": 0, "mask": 1}}


def begun(store, *windows):
    """The job of a question that takes long, once the worker has begun it."""
    for window in windows:
        assert "waits" in answer(lambda: TALK, SLOWLY, store, window)
    (job,) = [job for request, job in store._jobs.items() if request == SLOW]
    for _ in range(600):
        if job.started:
            return job
        time.sleep(0.05)
    raise AssertionError("the worker does not begin")


def test_a_new_question_cancels_what_runs_for_the_one_before(monkeypatch):
    monkeypatch.setattr("viz.talk.live.LONGEST_S", 1e6)
    store = runs.run_store()
    job = begun(store, "a")
    assert "shown" in answered(QUICKLY, "a")
    assert job.wait(0)
    with pytest.raises(Cancelled):
        job.result()


def test_what_another_window_waits_for_runs_on_until_that_one_leaves_too(monkeypatch):
    monkeypatch.setattr("viz.talk.live.LONGEST_S", 1e6)
    store = runs.run_store()
    job = begun(store, "a", "b")
    assert answer(lambda: TALK, {"leaves": True}, store, "a") is None
    assert not job.cancelled
    answer(lambda: TALK, {"leaves": True}, store, "b")
    with pytest.raises(Cancelled):
        job.result(10)


def test_sentences_of_live_scenes_hold_for_every_choice():
    """A shipped scene that is live names no mask and no length of its own in words, nor in its notes."""
    for name in NAMES:
        for scene in read_talk(talk_path(name)).scenes:
            words = " ".join([scene.title, scene.sentence, *(stop.sentence for stop in scene.stops)]).lower()
            notes = scene.notes.lower()
            if scene.live:
                assert not [word for word in ("causal", "diagonal", "window") if word in notes], scene
                assert not [word for word in ("causal", "diagonal", "window", "_time") if word in words], (
                    scene
                )
