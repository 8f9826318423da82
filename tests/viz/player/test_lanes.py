"""What the view of an SM is sent: times, blocks, figures; names, roles and phases are those of the kernel."""

import base64
import dataclasses

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, lane_kernel
from kernels.problem.presets import LANE_PROBLEMS
from kernels.recordings import FOLDER, LANES_PREFIX, recorded_lanes
from kernels.trace.lanes import Lanes
from tests.lanes import HOPPER, backward_lanes, hopper_lanes, plain_lanes
from viz.player.lanes import LanesRun, figures_of, lanes_data


@pytest.fixture(scope="module")
def runs():
    return LanesRun(hopper_lanes(), recorded=True), LanesRun(plain_lanes(), recorded=False)


def numbers(text, dtype):
    return np.frombuffer(base64.b64decode(text), np.dtype(dtype).newbyteorder("<"))


def small(sent_numbers):
    return numbers(sent_numbers["data"], sent_numbers["dtype"])


def test_each_event_is_sent_with_its_time_activity_and_tile(runs):
    origins = [each["provenance"] for each in lanes_data(runs)["runs"]]
    device = "Made-up GPU, Triton 3.0"
    assert origins == [f"recorded on {device}, 2026-11-22", f"measured here on {device}"]
    for run, data in zip(runs, lanes_data(runs)["runs"], strict=True):
        lanes = run.lanes
        begin, length = numbers(data["begin"], "uint32") / 1.5, small(data["length"]) / 1.5
        places = small(data["places"]).reshape(-1, 4)[small(data["place"])]
        names = [data["activities"][number]["name"] for number in numbers(data["activity"], "uint8")]
        got = sorted(zip(begin.round(3), (begin + length).round(3), names, places.tolist(), strict=True))
        wanted = sorted(
            (
                lanes.event_begin_ns[i],
                lanes.event_end_ns[i],
                lanes.activities[lanes.event_activity[i]][0],
                [
                    lanes.event_program[i],
                    lanes.event_batch_head[i],
                    lanes.event_q_tile[i],
                    lanes.event_kv_tile[i],
                ],
            )
            for i in range(len(lanes.event_program))
        )
        assert [each[2:] for each in got] == [each[2:] for each in wanted]
        times = [[each[:2] for each in those] for those in (got, wanted)]
        np.testing.assert_allclose(*times, atol=0.34)  # half a cycle
        assert sum(track["count"] for sm in data["sms"] for track in sm["tracks"]) == len(begin)


def test_a_talk_is_sent_products_and_softmax_alone(runs):
    for data in lanes_data(runs, ("product", "softmax"))["runs"]:
        sent = {data["activities"][number]["kind"] for number in numbers(data["activity"], "uint8")}
        assert sent == {"product", "softmax"}
        assert all(track["count"] for sm in data["sms"] for track in sm["tracks"])


def test_figures_are_those_of_the_lanes(runs):
    figures = {figure.name: figure for figure in figures_of(runs)}
    hopper = runs[0].lanes
    assert figures["A product was under way"].values == (f"{100 * hopper.product_share:.0f} %", "72 %")
    assert figures["Softmax beside a product"].values == (f"{100 * hopper.hidden_share:.0f} %", "22 %")
    assert figures["Wait for K"].values == ("5.6 %", "–")
    assert figures["Wait for K"].words == "of the time of warpgroup 1 and warpgroup 2"
    assert figures["Place for K"].words.startswith("of the time of loads, ")
    assert figures["Marks change its time by"].values == ("+5 %", "+5 %")
    faster = LanesRun(hopper_lanes(plain_us=100.0, marked_us=93.0), True)
    assert [each.values for each in figures_of([faster]) if each.name.startswith("Marks")] == [("−7 %",)]
    no_softmax = dataclasses.replace(hopper, sm_softmax_ns=np.zeros(2), sm_hidden_ns=np.zeros(2))
    with np.errstate(invalid="ignore"):
        assert figures_of([LanesRun(no_softmax, True)])[2].values == ("–",)


def test_a_block_keeps_its_tile_if_an_sm_worked_on_more_tiles_than_16_bits_count():
    count = (1 << 16) + 10
    whole = ("program", "lane", "activity", "batch_head", "q_tile")
    events = {f"event_{name}": np.zeros(count, int) for name in whole}
    begin = 10.0 * np.arange(count)
    events |= {"event_kv_tile": np.arange(count), "event_begin_ns": begin, "event_end_ns": begin + 5}
    lanes = dataclasses.replace(plain_lanes(), **events)
    (data,) = lanes_data([LanesRun(lanes, recorded=False)])["runs"]
    about = small(data["places"]).reshape(-1, 4)[small(data["place"])]
    assert about[:, 3].tolist() == list(range(count))


LANE_FILES = sorted(FOLDER.glob(f"{LANES_PREFIX}*.npz"))


def test_lanes_of_the_sweep_have_its_name_and_say_what_is_not_in_its_time():
    problem = lane_kernel("backward_sweep").with_own_tiles(LANE_PROBLEMS["full128"])
    run = LanesRun(recorded_lanes(problem, "backward_sweep"), recorded=True)
    (data,) = lanes_data([run])["runs"]
    assert data["title"] == run.kernel.label == ALGORITHMS["flash3_backward"].label
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
    assert all(kernel.facts(name)["phase"] for name, _ in lanes.activities)
    labels = {role.label.format(number) for role in kernel.roles for number in range(1, len(lanes.lanes) + 1)}
    assert labels.issuperset(lanes.lanes)
