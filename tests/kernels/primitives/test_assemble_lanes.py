"""Lanes of marks that were set by hand."""

import numpy as np
import pytest
import torch

from kernels.primitives.assemble_lanes import LaneLaunch, MarkedCall, assemble_lanes
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


def assembled(buffers, launch):
    """The lanes of one launch."""
    marked = MarkedCall(lambda lanes: None, (launch,))
    return assemble_lanes(PROBLEM, "flash2", marked, [buffers], (100.0, 110.0))


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
    return assembled(buffers, LaneLaunch((COMPUTES, LOADS), 2, 3))


def events_of(lanes, name):
    number = [own for own, _ in lanes.activities].index(name)
    kept = np.flatnonzero(lanes.event_activity == number)
    columns = (lanes.event_program, lanes.event_q_tile, lanes.event_kv_tile)
    columns += (lanes.event_begin_ns, lanes.event_end_ns)
    return [tuple(pytest.approx(each[i]) for each in columns) for i in kept]


def test_an_activity_lies_between_its_marks_in_ns_and_is_about_its_tile():
    """PV ends with a mark of the next turn; a rescale is about the tile of the turn before."""
    lanes = made_lanes()
    assert lanes.clock_ghz == pytest.approx(2.0)
    assert events_of(lanes, "QK^T") == [(0, 1, 0, 15, 55), (0, 1, 1, 80, 120), (1, 0, 1, 202, 205)]
    assert lanes.event_batch_head[lanes.event_program == 0].max() == 1
    assert events_of(lanes, "place for K") == [(0, 1, 0, 0.5, 4.5)]
    assert events_of(lanes, "PV")[:2] == [(0, 1, 0, 75, 120), (0, 1, 1, 130, 150)]
    assert events_of(lanes, "rescale")[:2] == [(0, -1, -1, 1, 5), (0, 1, 0, 75, 76)]


def test_what_the_warps_of_a_lane_do_themselves_does_not_overlap():
    """`has` of an early warp stands beside `asks` of a late one: the wait is over at once."""
    buffers = make_lane_buffers(1, 2, 1)
    buffers.clock[:] = torch.tensor([[5000, 0, 5200, 400, 7]])
    kinds, own = (
        {"rescale": OTHER, "wait for V": WAIT, "wait for QK^T": WAIT},
        ("began", "asks", "has", "scores"),
    )
    spans = zip(kinds.items(), own, own[1:], strict=False)
    role = LaneRole("warpgroup {}", own, tuple(Activity(*kind, "a phase", a, b) for kind, a, b in spans))
    for name, cycles in zip(own, (10, 140, 100, 300), strict=True):
        buffers.marks[0, 0, 0, role.number(name)] = cycles
    lanes = assembled(buffers, LaneLaunch((role, LOADS), 1, 1))
    assert [each[3:] for name in kinds for each in events_of(lanes, name)] == [(5, 70), (70, 70), (70, 150)]
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


# --- two kernels, one after the other ---

FIRST = LaneRole(
    "dK, dV",
    ("start", "has Q", "has S", "has P"),
    (
        Activity("wait for Q", WAIT, "a phase", "start", "has Q"),
        Activity("S^T", PRODUCT, "a phase", "has Q", "has S"),
        Activity("P^T", SOFTMAX, "a phase", "has S", "has P"),
    ),
    kernel="one",
)
THEN = LaneRole(
    "dQ", ("start", "has S"), (Activity("S", PRODUCT, "a phase", "start", "has S"),), kernel="other"
)
CLOCKS = (
    [[1000, 0, 1100, 200, 7], [1010, 5000, 1090, 5160, 9]],  # two programs, each on an SM of its own
    [[1600, 1200, 1640, 1280, 7], [1650, 1300, 1700, 1400, 7]],  # 500 ns later, both on one of them
)
"""Of two kernels at 2 cycles per ns: timer and cycle counter at the start and at the end, and the SM."""


def lanes_of_two():
    launches = (LaneLaunch((FIRST,), 2, 2), LaneLaunch((THEN,), 2, 1))
    buffers = [launch.make_buffers() for launch in launches]
    marks = {
        (0, 0, 0): (20, 40, 100, 160),
        (0, 0, 1): (160, 170, 190, 196),
        (0, 1, 0): (5010, 5020, 5060, 5100),
        (1, 0, 0): (1210, 1260),
        (1, 1, 0): (1310, 1390),
    }
    tiles = {(0, 0, 0): (1, 0), (0, 0, 1): (3, 0), (0, 1, 0): (0, 1), (1, 0, 0): (2, 1), (1, 1, 0): (3, 0)}
    for (launch, program, turn), values in marks.items():
        record = buffers[launch].marks[program, 0, turn]
        record[: len(values)] = torch.tensor(values)
        record[Q_TILE.value], record[KV_TILE.value] = (tile + 1 for tile in tiles[launch, program, turn])
    for each, ticks in zip(buffers, CLOCKS, strict=True):
        each.clock[:] = torch.tensor(ticks)
    marked = MarkedCall(lambda *lanes: None, launches)
    return assemble_lanes(PROBLEM, "backward_plain", marked, buffers, (100.0, 110.0))


def test_the_pause_between_two_launches_is_no_time_of_an_sm():
    lanes = lanes_of_two()
    assert lanes.sm.tolist() == [7, 9]
    assert lanes.sm_busy_ns.tolist() == pytest.approx([100 + 100, 80])
    assert lanes.sm_product_ns.tolist() == pytest.approx([30 + 10 + 25 + 40, 20])
    assert lanes.product_share == pytest.approx(125 / 280)
    assert lanes.hidden_share == 0
    # The time of a lane is that of the programs of its own kernel.
    names = [name for name, _ in lanes.activities]
    of_name = dict(zip(names, lanes.sm_lane_ns.T.tolist(), strict=True))
    assert of_name["S^T"] == pytest.approx([100, 80])
    assert of_name["S"] == pytest.approx([40 + 50, 0])
    assert lanes.wait_shares == {"wait for Q": pytest.approx((10 + 5 + 5) / 180)}
