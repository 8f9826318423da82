"""Lanes of marks that were set by hand."""

import numpy as np
import pytest
import torch

from kernels.primitives.assemble_lanes import LaneLaunch, assemble_lanes
from kernels.primitives.marks import KV_TILE, Q_TILE, make_lane_buffers
from kernels.problem import AttentionProblem
from kernels.trace.lanes import OTHER, PRODUCT, SOFTMAX, WAIT, Activity, LaneRole

COMPUTES = LaneRole(
    "warpgroup {}",
    ("asks", "has", "scores", "weights", "output", "began"),
    (
        Activity("wait for K", WAIT, "a phase", "asks", "has"),
        Activity("QK^T", PRODUCT, "a phase", "has", "scores"),
        Activity("softmax", SOFTMAX, "a phase", "scores", "weights"),
        Activity("PV", PRODUCT, "a phase", "weights", "output", or_next="scores"),
        Activity("rescale", OTHER, "a phase", "began", "asks", turns_back=1),
    ),
)
LOADS = LaneRole("loads", ("asks", "loads"), (Activity("place for K", WAIT, "a phase", "asks", "loads"),))
PROBLEM = AttentionProblem(batch=1, q_heads=2, kv_heads=2, q_len=128, kv_len=128)
START, SECOND = (1 << 32) - 50, 1000
"""Cycle counters at the starts of two programs; that of the first one passes 32 bits while it runs."""


def set_marks(buffers, program, lane, turn, **marks):
    role = LOADS if lane == 1 else COMPUTES
    start = (START, SECOND)[program]
    for name, cycles in marks.items():
        value = (start + cycles) % (1 << 32)
        value -= (value >= 1 << 31) << 32  # as a signed number
        buffers.marks[program, lane, turn, role.number(name)] = value


def made_lanes():
    """Two programs on one SM at 2 cycles per ns; the second one starts 200 ns after the first."""
    buffers = make_lane_buffers(2, 2, 3)
    set_marks(buffers, 0, 0, 0, began=2, asks=10, has=30, scores=110, weights=150)
    set_marks(buffers, 0, 0, 1, began=150, asks=152, has=160, scores=240, weights=260, output=300)
    set_marks(buffers, 1, 0, 0, asks=2, has=4, scores=10, weights=20, output=40)
    set_marks(buffers, 0, 1, 0, asks=1, loads=9)
    for program, turn, q_tile, kv_tile in ((0, 0, 3, 0), (0, 1, 3, 1), (1, 0, 0, 1)):
        buffers.marks[program, 1, turn, Q_TILE.value] = q_tile + 1
        buffers.marks[program, 1, turn, KV_TILE.value] = kv_tile + 1
    ticks = [[5000, START, 5200, START + 400, 7], [5200, START + 400, 5230, START + 460, 7]]
    buffers.clock[:] = torch.tensor(ticks)
    # The second program's marks count from its own counter.
    buffers.marks[1, 0, 0, :5] += (START + 400) % (1 << 32) - SECOND
    launch = LaneLaunch(lambda lanes: None, (COMPUTES, LOADS), 2, 3, q_tiles=2)
    return assemble_lanes(PROBLEM, "flash2", launch, buffers, (100.0, 110.0))


def events_of(lanes, name):
    number = [own for own, _ in lanes.activities].index(name)
    kept = np.flatnonzero(lanes.event_activity == number)
    columns = (lanes.event_program, lanes.event_q_tile, lanes.event_kv_tile)
    times = (lanes.event_begin_ns, lanes.event_end_ns)
    return [
        (*(int(each[i]) for each in columns), *(pytest.approx(float(each[i])) for each in times))
        for i in kept
    ]


def test_an_activity_lies_between_its_marks_in_ns_and_is_about_its_tile():
    lanes = made_lanes()
    assert lanes.clock_ghz == pytest.approx(2.0)
    assert events_of(lanes, "QK^T") == [(0, 1, 0, 15, 55), (0, 1, 1, 80, 120), (1, 0, 1, 202, 205)]
    assert lanes.event_batch_head[lanes.event_program == 0].max() == 1
    assert events_of(lanes, "place for K") == [(0, 1, 0, 0.5, 4.5)]


def test_a_product_that_is_not_waited_for_ends_with_a_mark_of_the_next_turn():
    assert events_of(made_lanes(), "PV")[:2] == [(0, 1, 0, 75, 120), (0, 1, 1, 130, 150)]


def test_an_activity_may_be_about_the_tile_of_the_turn_before():
    assert events_of(made_lanes(), "rescale")[:2] == [(0, -1, -1, 1, 5), (0, 1, 0, 75, 76)]


def test_what_the_warps_of_a_lane_do_themselves_does_not_overlap():
    """`has` of an early warp stands beside `asks` of a late one: the wait is over at once."""
    buffers = make_lane_buffers(1, 2, 1)
    buffers.clock[:] = torch.tensor([[5000, 0, 5200, 400, 7]])
    own = ("began", "asks", "has", "scores")
    role = LaneRole(
        "warpgroup {}",
        own,
        (
            Activity("rescale", OTHER, "a phase", "began", "asks"),
            Activity("wait for V", WAIT, "a phase", "asks", "has"),
            Activity("wait for QK^T", WAIT, "a phase", "has", "scores"),
        ),
    )
    for name, cycles in zip(own, (10, 140, 100, 300), strict=True):
        buffers.marks[0, 0, 0, role.number(name)] = cycles
    launch = LaneLaunch(lambda lanes: None, (role, LOADS), 1, 1, q_tiles=2)
    lanes = assemble_lanes(PROBLEM, "flash2", launch, buffers, (100.0, 110.0))
    spans = [
        each[3:] for name in ("rescale", "wait for V", "wait for QK^T") for each in events_of(lanes, name)
    ]
    assert spans == [(5, 70), (70, 70), (70, 150)]
    assert lanes.wait_shares["wait for QK^T"] == pytest.approx(80 / 200)


def test_the_shares_of_an_sm_are_unions_over_all_its_lanes():
    lanes = made_lanes()
    assert lanes.sm.tolist() == [7]
    assert lanes.sm_busy_ns[0] == pytest.approx(230)
    assert lanes.sm_product_ns[0] == pytest.approx((55 - 15) + (120 - 75) + (150 - 130) + 3 + 10)
    assert lanes.sm_softmax_ns[0] == pytest.approx(20 + 10 + 5)
    assert lanes.sm_hidden_ns[0] == pytest.approx(0)
    assert lanes.wait_shares["wait for K"] == pytest.approx((10 + 4 + 1) / 230)
    assert lanes.overhead == pytest.approx(0.1)
