"""The choice of the kernel whose lanes are shown, on the whole Explore page without a device."""

import dataclasses

import pytest

from kernels.problem.presets import PRESETS
from tests.app.pages import mounted_player, open_page
from tests.lanes import backward_lanes
from viz.player import lanes as player_lanes
from viz.shared import runs

PROBLEM = PRESETS["layer"].problem
"""Its tiles are those of the sweep, whose lanes are recorded."""
SWEEP, PLAIN = "Backward sweep for Hopper", "Plain backward kernels"


@pytest.fixture
def found(monkeypatch):
    """Recorded lanes of PROBLEM by the name of the kernel, in place of those in the files."""
    recorded = player_lanes.recorded_lanes
    lanes = {"backward_sweep": recorded(PROBLEM, "backward_sweep")}
    monkeypatch.setattr(player_lanes, "recorded_lanes", lambda problem, name: lanes.get(name))
    monkeypatch.setattr(runs, "backend", lambda store: "replay")
    monkeypatch.setattr(runs, "run_store", lambda: None)
    monkeypatch.setattr("viz.shared.layout.triton_missing", lambda: "no Triton")
    player_lanes.recorded_lane_runs.cache_clear()
    yield lanes
    player_lanes.recorded_lane_runs.cache_clear()


def titles(app):
    """Of the runs whose lanes the player got."""
    return [run["title"] for run in mounted_player(app)["run"].get("lanes", {"runs": []})["runs"]]


def opened(**query):
    app = open_page(**PROBLEM.as_dict(), algorithm="backward", **query)
    assert not app.exception
    return app


def choices(app):
    return [each for each in app.segmented_control if each.key == "lanes_of"]


def test_one_kernel_is_shown_as_it_is(found):
    app = opened()
    assert (titles(app), choices(app)) == ([SWEEP], [])


def test_another_kernel_or_both_are_chosen_and_the_url_keeps_it(found):
    found["backward_plain"] = dataclasses.replace(backward_lanes(), problem=PROBLEM)
    app = opened()
    (choice,) = choices(app)
    assert (choice.options, choice.value) == ([SWEEP, PLAIN, "Both"], "backward_sweep")
    assert titles(app) == [SWEEP]
    choice.set_value("backward_plain").run()
    assert (titles(app), app.query_params["lanes_of"]) == ([PLAIN], "backward_plain")
    assert titles(opened(lanes_of="backward_plain")) == [PLAIN]
    assert titles(opened(lanes_of="all")) == [PLAIN, SWEEP]  # the faster one first
    assert titles(opened(lanes_of="songs")) == [SWEEP]


def test_the_page_says_that_none_are_recorded(found):
    found.clear()
    app = opened()
    assert (titles(app), choices(app)) == ([], [])
    assert any("Lanes of an SM**: none are recorded" in caption.value for caption in app.caption)
