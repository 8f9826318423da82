"""Lanes of the two plain backward kernels: their marks in the interpreter, and by the clocks of a GPU."""

import itertools

import numpy as np
import pytest
import torch

from kernels.algorithms import run_lanes
from kernels.algorithms.backward import dk_dv, dq, recording_dk_dv, recording_dq
from kernels.algorithms.backward.lanes import KEY_PROGRAM, PLAIN, QUERY_PROGRAM
from kernels.algorithms.backward.run import call_of, marked_call
from kernels.device.runtime import BACKEND
from kernels.primitives import recorder, tile_io
from kernels.primitives.assemble_lanes import MAX_EVENTS, assemble_lanes
from kernels.primitives.marks import CLOCK_COLUMNS, RECORD, program_number
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.tiles import visited_tiles
from tests.kernels.helpers import problem_id

import triton
import triton.language as tl

KEYS = [each.name for each in KEY_PROGRAM.activities if not each.name.startswith("write")]
QUERIES = [each.name for each in QUERY_PROGRAM.activities if not each.name.startswith("write")]
SIZES = {"batch": 2, "q_heads": 4, "kv_heads": 2, "block_m": 16, "block_n": 32}
PROBLEMS = {
    "full": AttentionProblem(q_len=64, kv_len=96, head_dim=16, **SIZES),
    "causal": AttentionProblem(q_len=80, kv_len=80, head_dim=16, mask="causal", **SIZES),
    "window": AttentionProblem(q_len=96, kv_len=128, head_dim=16, mask="window", window_left=20, **SIZES),
    "keyless": AttentionProblem(q_len=96, kv_len=32, head_dim=16, mask="causal", **SIZES),
}


def visits(problem):
    """(head, query tile, key tile) of every visited tile."""
    return [
        (head, q_tile, kv_tile)
        for head in range(problem.heads)
        for q_tile in range(problem.q_tiles)
        for kv_tile in range(visited_tiles(problem, q_tile).first, visited_tiles(problem, q_tile).end)
    ]


def events_of(lanes, name):
    return np.flatnonzero(lanes.event_activity == [own for own, _ in lanes.activities].index(name))


def tiles_of(lanes, name):
    columns = (lanes.event_batch_head, lanes.event_q_tile, lanes.event_kv_tile)
    return list(zip(*(each[events_of(lanes, name)].tolist() for each in columns), strict=True))


def assert_every_tile_once(problem, lanes):
    """Each activity of a turn is there once per visited tile, and each program writes out once."""
    for name in KEYS + QUERIES:
        assert sorted(tiles_of(lanes, name)) == sorted(visits(problem)), name
    ends = {"write dK, dV": (0, 2), "write dQ": (0, 1)}  # which of (head, query tile, key tile) a program has
    for name, (head, tile) in ends.items():
        group = problem.group_size if name == "write dK, dV" else 1
        written = [(each[head] // group, each[tile]) for each in tiles_of(lanes, name)]
        assert sorted(written) == sorted({(each[head] // group, each[tile]) for each in visits(problem)})


# --- in the interpreter: programs run one after the other, by a clock that counts the marks ---

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


def prepared(problem):
    """The marked call of a problem, and the backward pass that it is of."""
    call = call_of(problem)
    call.preprocess()
    return marked_call(problem, call), call


def gradients_of(problem):
    """dQ, dK and dV, without marks and with them."""
    marked, call = prepared(problem)
    for buffers in ([None, None], [launch.make_buffers() for launch in marked.launches]):
        marked.call(*buffers)
        yield [each.clone() for each in (call.d_query, call.d_key, call.d_value)]


def interpreted(problem):
    """The lanes of both kernels by the ticking clock."""
    marked, _ = prepared(problem)
    buffers = [launch.make_buffers() for launch in marked.launches]
    marked.call(*buffers)
    return assemble_lanes(problem, PLAIN.name, marked, buffers, (1.0, 1.1))


@in_interpreter
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_every_visited_tile_has_every_activity_once_in_each_kernel(problem, ticking):
    lanes = interpreted(problem)
    assert_every_tile_once(problem, lanes)
    assert lanes.lanes == ("dK, dV", "dQ")
    assert len(lanes.program_sm) == problem.key_heads * problem.kv_tiles + problem.heads * problem.q_tiles


@in_interpreter
def test_the_marks_of_a_turn_follow_each_other_and_so_do_the_kernels(ticking):
    """One tick from mark to mark: no mark is left out, and none is set twice."""
    problem = PROBLEMS["causal"]
    lanes = interpreted(problem)
    of_turn = [name for name, _ in lanes.activities if not name.startswith("write")]
    length = (lanes.event_end_ns - lanes.event_begin_ns).round()
    assert set(length[np.concatenate([events_of(lanes, name) for name in of_turn])]) == {10}
    keys, queries = lanes.event_lane == 0, lanes.event_lane == 1
    assert lanes.event_end_ns[keys].max() < lanes.event_begin_ns[queries].min()
    first_query_program = problem.key_heads * problem.kv_tiles
    assert lanes.event_program[keys].max() < first_query_program <= lanes.event_program[queries].min()


@in_interpreter
def test_marks_change_no_gradient(ticking):
    plain, marked = gradients_of(PROBLEMS["causal"])
    assert all(map(torch.equal, plain, marked))


@in_interpreter
def test_without_a_gpu_they_are_refused():
    with pytest.raises(InvalidProblem, match="the interpreter has no clock of an SM"):
        run_lanes(PROBLEMS["full"], PLAIN.name)


# --- on a GPU ---


def problem_of(head_dim, mask, **changes):
    sizes = {"q_heads": 4, "kv_heads": 2, "q_len": 640, "kv_len": 640, "block_n": 128}
    return AttentionProblem(**sizes | changes, head_dim=head_dim, mask=mask)


GPU_PROBLEMS = [
    problem_of(64, "full"),
    problem_of(64, "causal", block_n=64),
    problem_of(128, "window"),
    problem_of(80, "causal", q_len=200, kv_len=328, block_n=32),
    problem_of(16, "full", q_len=32, kv_len=32, block_m=4, block_n=4),
]


@pytest.mark.gpu
@pytest.mark.parametrize("problem", GPU_PROBLEMS, ids=problem_id)
def test_on_a_gpu_every_visited_tile_has_every_activity_once(problem):
    lanes = run_lanes(problem, PLAIN.name)
    assert len(lanes.event_program) < MAX_EVENTS  # of all SMs
    assert_every_tile_once(problem, lanes)


@pytest.mark.gpu
@pytest.mark.parametrize("problem", GPU_PROBLEMS, ids=problem_id)
def test_on_a_gpu_times_lie_in_their_programs_and_shares_are_shares(problem):
    lanes = run_lanes(problem, PLAIN.name)
    begins, ends = (each[lanes.event_program] for each in (lanes.program_begin_ns, lanes.program_end_ns))
    assert (lanes.event_begin_ns >= begins - 1).all()
    assert (lanes.event_end_ns <= ends + 1).all()
    assert 0 < lanes.product_share <= 1
    assert -1e-9 <= lanes.hidden_share <= 1 + 1e-9
    assert all(0 <= share <= 1 for share in lanes.wait_shares.values())
    assert 0.5 < lanes.clock_ghz < 3


@pytest.mark.gpu
def test_on_a_gpu_the_second_kernel_follows_soon_after_the_first():
    """The marks are those of a run as it is timed: without the time that Python takes for a launch."""
    problem = problem_of(64, "full")
    lanes = run_lanes(problem, PLAIN.name)
    count = problem.key_heads * problem.kv_tiles
    pause = lanes.program_begin_ns[count:].min() - lanes.program_end_ns[:count].max()
    assert -2000 < pause < 20_000  # between SMs, the timer is as good as a microsecond
    span = lanes.program_end_ns.max() - lanes.program_begin_ns.min()
    assert span / 1e3 < 2 * lanes.marked_us


@pytest.mark.gpu
@pytest.mark.parametrize("problem", GPU_PROBLEMS, ids=problem_id)
def test_on_a_gpu_marks_change_no_gradient(problem):
    plain, marked = gradients_of(problem)
    for one, other in zip(plain, marked, strict=True):
        torch.testing.assert_close(one, other)
