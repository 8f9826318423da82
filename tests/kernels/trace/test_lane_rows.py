"""Rows and tracks of lanes, and lanes in Perfetto's format."""

import json

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS
from kernels.device.gpus import GPUS
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run
from kernels.trace.lanes import pack, tracks_of
from kernels.trace.schedule import chrome_trace, step_schedule
from tests.lanes import hopper_lanes, plain_lanes

BUILT = {"hopper": hopper_lanes(), "plain": plain_lanes()}


@pytest.mark.parametrize("lanes", BUILT.values(), ids=BUILT)
def test_every_event_is_in_one_track_of_its_sm_and_no_two_overlap(lanes):
    tracks = tracks_of(lanes)
    events = np.concatenate([track.events for track in tracks])
    assert sorted(events.tolist()) == list(range(len(lanes.event_program)))
    for track in tracks:
        begin, end = lanes.event_begin_ns[track.events], lanes.event_end_ns[track.events]
        assert (begin[1:] >= end[:-1]).all()
        assert set(lanes.program_sm[lanes.event_program[track.events]]) == {track.sm}
        kinds = {lanes.activities[number][1] for number in lanes.event_activity[track.events]}
        assert (kinds == {"product"}) == track.is_product
        assert len(set(lanes.event_lane[track.events])) == 1


def test_a_persistent_program_has_a_row_per_lane_and_its_products_keep_their_tracks():
    lanes = BUILT["hopper"]
    tracks = [track for track in tracks_of(lanes) if track.sm == 0]
    assert list(dict.fromkeys(track.row for track in tracks)) == list(lanes.lanes)
    names = [
        {lanes.activities[number][0] for number in lanes.event_activity[track.events]}
        for track in tracks
        if track.row == "warpgroup 1" and track.is_product
    ]
    assert names == [{"QK^T"}, {"PV"}]


def test_programs_that_are_on_an_sm_at_once_have_a_row_each():
    lanes = BUILT["plain"]
    rows = {track.row for track in tracks_of(lanes) if track.sm == 1}
    assert rows == {"program (1 of 2)", "program (2 of 2)"}
    for track in tracks_of(lanes):
        programs = lanes.event_program[track.events]
        assert (np.diff(lanes.program_begin_ns[programs]) >= 0).all()


def test_spans_take_the_lowest_free_row_or_their_home():
    begin, end = np.array([0.0, 100, 200, 500]), np.array([400.0, 300, 600, 700])
    assert pack(begin, end).tolist() == [0, 1, 2, 0]
    assert pack(begin, end, np.array([1, 0, 2, 0])).tolist() == [1, 0, 2, 0]
    assert pack(begin, end, np.array([1, 1, 1, 1])).tolist() == [1, 0, 2, 1]
    assert pack(np.array([0.0, 99]), np.array([100.0, 310])).tolist() == [0, 0]  # they share a mark


def test_perfetto_gets_a_process_per_sm_and_a_slice_per_event():
    trace = recorded_run(PRESETS["tiny"].problem, "flash2").trace
    entry = ALGORITHMS["flash2"]
    runs = [("Hopper", BUILT["hopper"]), ("plain", BUILT["plain"])]
    exported = chrome_trace(trace, step_schedule(trace, entry, GPUS["H200"]), entry, "GPU", runs)
    events = json.loads(exported)["traceEvents"]
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    named = [words.split(", lanes")[0] for words in processes.values()][1:]
    assert named == ["SM 0, Hopper", "SM 1, Hopper", "SM 0, plain", "SM 1, plain"]
    for (label, lanes), pids in zip(runs, ((1, 2), (3, 4)), strict=True):
        own = [event for event in events if event["pid"] in pids and event["ph"] == "X"]
        assert len(own) == len(lanes.event_program), label
        length = sum(event["dur"] for event in own)
        assert length == pytest.approx((lanes.event_end_ns - lanes.event_begin_ns).sum() / 1e3)
    threads = [(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"]
    assert len(threads) == len(set(threads))
