"""What is shown of lanes follows from their kernel: its name, what is said of it, its roles and phases."""

import dataclasses

import pytest

from kernels.algorithms import ALGORITHMS, lane_kernel
from kernels.problem.presets import LANE_PROBLEMS
from kernels.recordings import FOLDER, LANES_PREFIX, recorded_lanes
from kernels.trace.lanes import Lanes
from tests.lanes import HOPPER, backward_lanes, hopper_lanes
from viz.player.lanes import LanesRun, figures_of, lanes_data

LANE_FILES = sorted(FOLDER.glob(f"{LANES_PREFIX}*.npz"))


def test_lanes_of_the_sweep_have_its_name_and_say_what_is_not_in_its_time():
    problem = lane_kernel("backward_sweep").with_own_tiles(LANE_PROBLEMS["full128"])
    run = LanesRun(recorded_lanes(problem, "backward_sweep"), recorded=True)
    (data,) = lanes_data([run])["runs"]
    assert data["title"] == run.label == ALGORITHMS["flash3_backward"].label
    assert {each["kernel"] for each in data["activities"]} == {""}
    about = {each["name"]: each["about"] for each in data["activities"]}
    assert about["place for Q"].startswith("until")
    assert not about["dV"]
    assert "not in its time" in data["notes"][0]


def test_lanes_of_two_kernels_say_which_one_an_activity_is_of_and_what_the_time_is():
    run = LanesRun(backward_lanes(), recorded=True)
    (data,) = lanes_data([run])["runs"]
    of = {each["name"]: (each["phase"], each["kernel"]) for each in data["activities"]}
    assert of["S^T"] == ("QK^T", "_attn_bwd_dk_dv")
    assert of["S"] == ("QK^T", "_attn_bwd_dq")
    assert data["notes"][0].startswith("Two kernels, one after the other")
    assert data["waits"]["names"] == ["wait for Q", "wait for K"]
    rows = {track["row"] for sm in data["sms"] for track in sm["tracks"]}
    assert rows == {"dK, dV", "dQ (1 of 2)", "dQ (2 of 2)"}  # an SM has one program of the first, two then


def test_a_wait_of_two_runs_says_whose_time_it_is_a_share_of():
    activities = tuple(("wait for Q" if name == "wait for K" else name, kind) for name, kind in HOPPER)
    sweep = dataclasses.replace(hopper_lanes(), kernel="backward_sweep", activities=activities)
    figures = figures_of([LanesRun(sweep, True), LanesRun(backward_lanes(), True)])
    (wait,) = [each for each in figures if each.name == "Wait for Q"]
    assert wait.words == "of the time of warpgroup 1 and warpgroup 2 or dK, dV"


@pytest.mark.parametrize("file", LANE_FILES, ids=[file.stem for file in LANE_FILES])
def test_recorded_lanes_have_roles_and_phases(file):
    lanes = Lanes.load(file)
    kernel = lane_kernel(lanes.kernel)
    assert all(kernel.phase_of(name) for name, _ in lanes.activities)
    roles = [kernel.role_of(lane, label) for lane, label in enumerate(lanes.lanes)]
    assert [role.computes for role in roles] == [label != "loads" for label in lanes.lanes]
