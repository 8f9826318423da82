"""Scenes that are run during the talk: what the stage is answered. The worker is the real one."""

import time
from dataclasses import replace

import pytest

from kernels.problem.presets import PRESETS
from kernels.worker.failures import Cancelled, TimedOut
from kernels.worker.requests import TraceRequest
from tests.app.pages import fail_jobs
from viz.player.talk.read import parse_talk, read_talk
from viz.shared import runs
from viz.shared.run_request import RunRequest
from viz.talk.shipped import answer

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
stops = ["bytes:1000"]
live = { length = [64] }
[[scene]]
title = "Not live"
sentence = "s"
problem = "tiny"
[[scene]]
title = "A chart"
sentence = "s"
chart = {}
[[scene]]
title = "Tiles of its own"
sentence = "s"
problem = "gpt2"
algorithm = "flash3"
live = { head_dim = [64, 256], tiles = [[128, 128]] }
""",
    "t.toml",
)


def ask(store, window="a", scene=0, **picks):
    return answer(lambda: TALK, {"id": "x", "scene": scene, "picks": picks}, store, window)


def answered(window="a", **asked):
    """The answer once the run is no longer under way."""
    for _ in range(600):
        said = ask(runs.run_store(), window, **asked)
        assert said["id"] == "x"
        if "waits" not in said:
            return said
        time.sleep(0.05)
    raise AssertionError(said)


def test_a_scene_is_run_with_what_was_picked():
    shown = answered(length=0, head_dim=0, tiles=0)["shown"]
    (run,) = shown["own"]["runs"].values()
    assert run["problem"]["q_len"] == run["problem"]["kv_len"] == 64
    assert run["problem"]["head_dim"] == 16
    assert "run here" in run["provenance"]
    assert run["steps"]["count"] == 4 + 3 + 2 + 1  # causal, 16 x 16: kept from the scene, and picked
    assert shown["title"] == "10 steps"
    assert [stop["step"] for stop in shown["stops"]] == ["0", "68.2", "136"]  # the stage moves them
    assert "_time" not in shown["sentence"]  # no time was measured of this run
    assert shown["sentence"].startswith("10 tile steps, ")


def test_what_would_take_long_or_is_refused_beside_the_picks_is_not_offered():
    def without(scene, **picks):
        asked = {"id": "o", "scene": scene, "picks": picks, "opens": True}
        return answer(lambda: TALK, asked, runs.run_store())["without"]

    assert without(0) == {"length": [2], "head_dim": [], "mask": [], "tiles": []}
    assert without(0, length=2) == {"length": [2], "head_dim": [0], "mask": [0, 1], "tiles": [0]}
    assert without(4, tiles=0) == {"head_dim": [1], "tiles": []}


def test_both_runs_of_a_comparison_change():
    shown = answered(scene=1, length=0)["shown"]
    assert {run["problem"]["q_len"] for run in shown["own"]["runs"].values()} == {64}
    assert len(shown["own"]["runs"]) == 2
    assert list(shown["own"]["duels"]) == [shown["duel"]]
    assert [stop["step"] for stop in shown["stops"]] == ["bytes:0", "bytes:1000"]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"scene": 0, "picks": {"length": 2}}, "would take about"),
        ({"scene": 0, "picks": {"length": 3}}, "the number of a value"),
        ({"scene": 3, "picks": {}}, "chart"),
        ({"scene": 4, "picks": {"head_dim": 1, "tiles": 0}}, "block_n=128"),
        ({"scene": 5, "picks": {}}, "0 to 4"),
        ({"scene": "0", "picks": {}}, "0 to 4"),
        ({"scene": 0, "picks": [1]}, "0 to 4"),
        ({}, "0 to 4"),
    ],
    ids=str,
)
def test_what_cannot_be_is_answered_in_words(asked, why):
    said = answer(lambda: TALK, {"id": "x", **asked}, runs.run_store(), "a")
    assert why in said["failed"]
    assert said["id"] == "x"


def test_a_file_that_is_half_edited_is_answered_in_words(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('title = "t"\n[[scene]]\ntitle = "o')
    said = answer(lambda: read_talk(path), {"id": "h", "scene": 0, "picks": {}}, None)
    assert said["id"] == "h"
    assert said["failed"].startswith("mine.toml: ")
    assert answer(lambda: read_talk(path), {"leaves": True}, None) is None


def test_a_failure_is_told_and_the_next_question_starts_again(monkeypatch):
    fail_jobs(monkeypatch, TraceRequest, TimedOut(1.0))
    assert "time limit" in answered(length=1)["failed"]
    monkeypatch.undo()
    assert "shown" in answered(length=1)


def test_without_a_worker_only_recorded_problems_are_shown():
    assert "not recorded" in ask(None, length=0)["failed"]
    assert "not recorded" in ask(None, scene=4, head_dim=1)["failed"]  # its own tiles are taken
    full = TALK.scenes[0].run.problem.with_(mask="full")
    other = replace(TALK, scenes=(replace(TALK.scenes[0], run=RunRequest(full, "flash2")),))
    assert "shown" in answer(lambda: other, {"id": "f", "scene": 0, "picks": {"mask": 0}}, None)


SLOW = TraceRequest(PRESETS["gpt2"].problem.with_(head_dim=16, mask="full", block_m=16, block_n=16), "flash2")


def begun(store, *windows):
    """The job of a question that takes long, once the worker has begun it."""
    for window in windows:
        assert "waits" in ask(store, window, head_dim=0, mask=1, tiles=0)
    (job,) = [job for request, job in store._jobs.items() if request == SLOW]
    for _ in range(600):
        if job.started:
            break
        time.sleep(0.05)
    return job


def test_what_nobody_waits_for_any_more_is_cancelled(monkeypatch):
    """It runs on while another window waits for it, until that one asks for something else or leaves too."""
    monkeypatch.setattr("viz.talk.shipped.LONGEST_S", 1e6)
    store = runs.run_store()
    job = begun(store, "a", "b")
    assert answer(lambda: TALK, {"leaves": True}, store, "a") is None
    assert not job.cancelled
    assert "shown" in answered("b", length=0, head_dim=0, mask=1)
    with pytest.raises(Cancelled):
        job.result(10)
