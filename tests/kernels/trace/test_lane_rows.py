"""Rows and tracks of lanes."""

import numpy as np
import pytest

from kernels.trace.lanes import pack, tracks_of
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
