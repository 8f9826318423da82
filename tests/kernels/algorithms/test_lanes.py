"""Lanes of every kernel that sets marks: by a ticking clock in the interpreter, by the clocks of a GPU."""

import itertools

import numpy as np
import pytest
import torch

from kernels.algorithms import kernels_with_lanes, lane_kernel, run_lanes
from kernels.algorithms.backward import dk_dv, dq, recording_dk_dv, recording_dq
from kernels.algorithms.backward.entry import KEY_PROGRAM, PLAIN, QUERY_PROGRAM
from kernels.algorithms.backward.run import call_of, marked_call
from kernels.device.backend import compute_capability
from kernels.device.runtime import BACKEND
from kernels.primitives import recorder, tile_io
from kernels.primitives.assemble_lanes import MAX_EVENTS, assemble_lanes
from kernels.primitives.marks import CLOCK_COLUMNS, RECORD, program_number
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.tiles import TileKind, visited_tiles
from tests.kernels.helpers import problem_id

import triton
import triton.language as tl

KEYS, QUERIES = ([each.name for each in role.activities[:-1]] for role in (KEY_PROGRAM, QUERY_PROGRAM))
"""Without the last ones, which write out."""
SIZES = {"q_heads": 4, "kv_heads": 2, "head_dim": 16, "block_m": 16, "block_n": 32}
PROBLEMS = {
    "full": AttentionProblem(q_len=32, kv_len=64, **SIZES),
    "causal": AttentionProblem(q_len=48, kv_len=48, mask="causal", **SIZES),
    "window": AttentionProblem(q_len=64, kv_len=96, mask="window", window_left=20, **SIZES),
    "keyless": AttentionProblem(q_len=64, kv_len=32, mask="causal", **SIZES),
}


def visits(problem, tiles_of=visited_tiles):
    """(head, query tile, key tile) of every visited tile."""
    places = itertools.product(range(problem.heads), range(problem.q_tiles), range(problem.kv_tiles))
    return [place for place in places if tiles_of(problem, place[1]).kind(place[2]) is not TileKind.SKIPPED]


def events_of(lanes, name):
    return lanes.event_activity == [own for own, _ in lanes.activities].index(name)


def tiles_of(lanes, kept):
    columns = (lanes.event_batch_head, lanes.event_q_tile, lanes.event_kv_tile)
    return sorted(zip(*(each[kept].tolist() for each in columns), strict=True))


def assert_every_tile_once(problem, lanes):
    """Each activity of a turn is there once per visited tile, and each program writes out once."""
    for name in KEYS + QUERIES:
        assert tiles_of(lanes, events_of(lanes, name)) == visits(problem), name
    for name, tile, group in (("write dK, dV", 2, problem.group_size), ("write dQ", 1, 1)):
        written = [(each[0] // group, each[tile]) for each in tiles_of(lanes, events_of(lanes, name))]
        assert sorted(written) == sorted({(each[0] // group, each[tile]) for each in visits(problem)})


# --- the plain backward kernels in the interpreter: a clock that counts the marks ---

TICKS = itertools.count(1)
in_interpreter = pytest.mark.skipif(BACKEND == "cuda", reason="the marks of a GPU are asm")


def tick():
    return 10 * next(TICKS)


@triton.jit
def ticking_mark(lane, turn, NUMBER: tl.constexpr):
    if lane is not None:
        tl.store(lane + turn * RECORD + NUMBER, tick())


@triton.jit
def ticking_program(buffers, AT_END: tl.constexpr):
    if buffers is not None:
        row = buffers.clock + program_number() * CLOCK_COLUMNS
        now = tick()
        tl.store(row + 2 * AT_END, now)
        tl.store(row + 2 * AT_END + 1, now)
        tl.store(row + 4, program_number() % 2)


@pytest.fixture
def ticking(monkeypatch):
    for module in (dk_dv, dq, recording_dk_dv, recording_dq, recorder, tile_io):
        for name, ticking in (("mark", ticking_mark), ("mark_program", ticking_program)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, ticking)


def run_marked(problem):
    """Gradients without marks and with them, the marked call, and its buffers."""
    call = call_of(problem)
    call.preprocess()
    marked = marked_call(problem, call)
    gradients = []
    for buffers in ([None, None], [launch.make_buffers() for launch in marked.launches]):
        marked.call(*buffers)
        gradients.append([each.clone() for each in (call.d_query, call.d_key, call.d_value)])
    return *gradients, marked, buffers


@in_interpreter
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_every_visited_tile_has_every_activity_once_and_marks_follow_each_other(problem, ticking):
    """One tick from mark to mark: no mark is left out, and none is set twice. No gradient changes."""
    plain, with_marks, marked, buffers = run_marked(problem)
    assert all(map(torch.equal, plain, with_marks))
    lanes = assemble_lanes(problem, PLAIN.name, marked, buffers, (1.0, 1.1))
    assert_every_tile_once(problem, lanes)
    assert lanes.lanes == ("dK, dV", "dQ")
    first_query_program = problem.key_heads * problem.kv_tiles
    assert len(lanes.program_sm) == first_query_program + problem.heads * problem.q_tiles
    length = (lanes.event_end_ns - lanes.event_begin_ns).round()
    assert set(length[np.any([events_of(lanes, name) for name in KEYS + QUERIES], axis=0)]) == {10}
    keys, queries = lanes.event_lane == 0, lanes.event_lane == 1
    assert lanes.event_end_ns[keys].max() < lanes.event_begin_ns[queries].min()
    assert lanes.event_program[keys].max() < first_query_program <= lanes.event_program[queries].min()


@in_interpreter
def test_without_a_gpu_they_are_refused():
    with pytest.raises(InvalidProblem, match="the interpreter has no clock of an SM"):
        run_lanes(PROBLEMS["full"], PLAIN.name)


# --- on a GPU ---


def problem_of(head_dim, mask, **changes):
    sizes = {"q_heads": 4, "kv_heads": 2, "q_len": 640, "kv_len": 640, "block_n": 128}
    return AttentionProblem(**sizes | changes, head_dim=head_dim, mask=mask)


BACKWARD_PROBLEMS = [
    problem_of(64, "full"),
    problem_of(64, "causal", block_n=64),
    problem_of(128, "window"),
    problem_of(80, "causal", q_len=200, kv_len=328, block_n=32),
    problem_of(16, "full", q_len=32, kv_len=32, block_m=4, block_n=4),
]


@pytest.mark.gpu
@pytest.mark.parametrize("problem", BACKWARD_PROBLEMS, ids=problem_id)
def test_on_a_gpu_every_visited_tile_has_every_activity_once_and_marks_change_no_gradient(problem):
    lanes = run_lanes(problem, PLAIN.name)
    assert len(lanes.event_program) < MAX_EVENTS  # of all SMs
    assert_every_tile_once(problem, lanes)
    plain, marked, *_ = run_marked(problem)
    for one, other in zip(plain, marked, strict=True):
        torch.testing.assert_close(one, other)


def lanes_on_this_gpu(kernel, problem):
    """The lanes of a kernel with its own tiles; skips what it does not run."""
    problem = lane_kernel(kernel).with_own_tiles(problem)
    if refused := lane_kernel(kernel).refusal(problem, compute_capability(BACKEND)):
        pytest.skip(str(refused))
    return problem, run_lanes(problem, kernel)


@pytest.mark.gpu
@pytest.mark.parametrize("mask", ["full", "causal"])
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("kernel", [kernel.name for kernel in kernels_with_lanes()])
def test_on_a_gpu_times_lie_in_their_programs_and_shares_are_shares(kernel, mask, head_dim):
    _, lanes = lanes_on_this_gpu(kernel, problem_of(head_dim, mask))
    assert len(lanes.event_program) > 0
    begins, ends = (each[lanes.event_program] for each in (lanes.program_begin_ns, lanes.program_end_ns))
    assert (lanes.event_begin_ns >= begins - 1).all()
    assert (lanes.event_end_ns <= ends + 1).all()
    assert (lanes.event_end_ns >= lanes.event_begin_ns).all()
    assert 0 < lanes.product_share <= 1
    assert -1e-9 <= lanes.hidden_share <= 1 + 1e-9
    assert all(0 <= share <= 1 for share in lanes.wait_shares.values())
    assert 0.5 < lanes.clock_ghz < 3
    assert np.isin(lanes.program_sm, lanes.sm).all()


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["flash2", "flash3"])
@pytest.mark.parametrize(
    ("head_dim", "mask"), [(64, "full"), (64, "causal"), (128, "window"), (256, "causal")]
)
def test_on_a_gpu_every_lane_multiplies_every_visited_tile_once(kernel, head_dim, mask):
    """But with head_dim over 128 a warpgroup of flash3 passes over tiles that are hidden from its rows."""
    sizes = {"block_m": 128, "block_n": 64 if head_dim > 128 else 128}
    problem, lanes = lanes_on_this_gpu(kernel, problem_of(head_dim, mask, **sizes))
    for lane, label in enumerate(lanes.lanes):

        def seen(problem, q_tile, lane=lane):
            if kernel == "flash3" and head_dim > 128:
                return visited_tiles(problem.with_(block_m=64), 2 * q_tile + lane)
            return visited_tiles(problem, q_tile)

        if label != "loads":
            for name in ("QK^T", "PV"):
                own = events_of(lanes, name) & (lanes.event_lane == lane)
                assert tiles_of(lanes, own) == visits(problem, seen)


@pytest.mark.gpu
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_on_a_gpu_with_head_dim_64_one_warpgroup_of_a_program_multiplies_at_a_time(mask):
    _, lanes = lanes_on_this_gpu("flash3", problem_of(64, mask))
    for program in np.unique(lanes.event_program):
        own = events_of(lanes, "QK^T") & (lanes.event_program == program)
        order = np.argsort(lanes.event_begin_ns[own])
        begins, ends = (each[own][order] for each in (lanes.event_begin_ns, lanes.event_end_ns))
        assert len(np.unique(lanes.event_lane[own])) == 2
        assert (ends[:-1] <= begins[1:]).all()
