"""Every step of a trace against the float64 oracle and against an independent count of bytes."""

import itertools
from collections import defaultdict

import numpy as np
import pytest
import torch

from kernels import tiles, trace
from kernels.inputs import make_inputs
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.recorder import DEVICE
from kernels.reference import oracle
from kernels.tiles import visited_tiles
from kernels.trace import InvalidTrace, Trace, run_traced
from kernels.traffic import flash_requested_bytes
from tests.kernels.helpers import run_forward

PROBLEMS = [
    AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=32),
    AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=32, block_n=16, mask="causal", dtype="bfloat16"),
    AttentionProblem(q_len=45, kv_len=77, head_dim=24, block_m=16, block_n=16, mask="causal"),
    AttentionProblem(q_len=77, kv_len=45, head_dim=20, block_m=16, block_n=16, mask="causal", dtype="float32"),
    AttentionProblem(q_len=33, kv_len=50, head_dim=16, block_m=16, block_n=16, batch=2, q_heads=4, kv_heads=2),
    AttentionProblem(q_len=17, kv_len=13, head_dim=16, block_m=4, block_n=8, mask="causal", inputs="growing_max"),
    AttentionProblem(q_len=40, kv_len=64, head_dim=16, block_m=16, block_n=16, inputs="large"),
]


def problem_id(problem):
    return f"q{problem.q_len}-k{problem.kv_len}-{problem.mask}-{problem.dtype}-{problem.inputs}-{problem.block_m}x{problem.block_n}"


traced = pytest.mark.parametrize("problem", PROBLEMS, ids=problem_id)


@traced
def test_every_step_matches_the_float64_oracle(problem):
    run = run_traced(problem)
    left, right = tiles.band(problem)
    exact = oracle(*make_inputs(problem), scale=problem.scale, left=left, right=right)
    unit_roundoff = torch.finfo(getattr(torch, problem.dtype)).eps
    size = float(exact.value.abs().max())
    previous = None
    for step in range(run.steps):
        head = divmod(int(run.batch_head[step]), problem.q_heads)
        first_row = int(run.q_tile[step]) * problem.block_m
        rows = slice(first_row, min(first_row + problem.block_m, problem.q_len))
        count = rows.stop - rows.start
        first_tile = visited_tiles(problem, int(run.q_tile[step])).first
        end_key = min((int(run.kv_tile[step]) + 1) * problem.block_n, problem.kv_len) if run.kv_tile[step] >= 0 else 0
        keys = torch.arange(first_tile * problem.block_n, end_key)
        m, l, acc = (tensor.numpy() for tensor in exact.after_keys(head, rows, keys))
        got_m, got_l, got_acc = run.row_max[step, :count], run.row_sum[step, :count], run.acc[step, :count]
        scale = np.maximum(np.abs(np.where(np.isinf(m), 0, m)), 1)
        finite = np.isfinite(m)
        assert np.array_equal(np.isfinite(got_m), finite)
        # Scores are float32 sums of products that are exact in float32: a few roundings of 6e-8 each.
        assert (np.abs(got_m[finite] - m[finite]) <= 2e-6 * scale[finite]).all()
        # An error e of a score moves its exponential by a factor exp(e); the sum and the accumulator follow.
        np.testing.assert_allclose(got_l, l, rtol=1e-5 * scale.max())
        # P is rounded to the type of the inputs before P V; the accumulator is compared in units of its row sum.
        assert np.abs(got_acc - acc).max() <= (unit_roundoff + 1e-5 * scale.max()) * size * max(l.max(), 1)
        fresh = previous is None or run.program[step] != run.program[step - 1]
        before = np.full(count, -np.inf) if fresh else previous
        if run.kv_tile[step] >= 0:
            with np.errstate(invalid="ignore"):
                alpha = np.where(np.isinf(before), 0.0, np.exp(before - m))
            np.testing.assert_allclose(run.alpha[step, :count], alpha, rtol=2e-5 * scale.max(), atol=1e-30)
        assert np.isnan(run.row_max[step, count:]).all()
        previous = m


@traced
def test_steps_visit_the_tiles_of_tiles_py_in_order(problem):
    run = run_traced(problem)
    assert np.all(np.diff(run.program) >= 0)
    for program in range(problem.batch * problem.q_heads * problem.q_tiles):
        steps = np.flatnonzero(run.program == program)
        assert set(run.q_tile[steps]) == {program % problem.q_tiles}
        assert set(run.batch_head[steps]) == {program // problem.q_tiles}
        visited = visited_tiles(problem, program % problem.q_tiles)
        assert list(run.kv_tile[steps]) == (list(range(visited.first, visited.end)) or [-1])


@traced
def test_tracing_changes_no_result(problem):
    run = run_traced(problem)
    out, lse = run_forward(problem)
    assert np.array_equal(run.output, out.float().cpu().numpy())
    assert np.array_equal(run.lse, lse.cpu().numpy())


@traced
def test_bytes_are_the_modelled_requests(problem):
    assert run_traced(problem).total_bytes == flash_requested_bytes(problem)


@traced
def test_distance_from_the_final_output_ends_at_its_rounding(problem):
    run = run_traced(problem)
    last = np.flatnonzero(np.diff(run.program, append=-1))
    eps = torch.finfo(getattr(torch, problem.dtype)).eps
    assert np.nanmax(run.output_distance[last]) <= eps * np.abs(run.output).max()


@pytest.fixture
def count_requests(monkeypatch):
    """Count, from outside the kernel, the bytes that the interpreter's masked loads and stores ask for.

    Returns a function that takes named tensors and gives {(program, name): [bytes of each request, in order]}. A program is told
    by the address of the query tile that it loads.
    """
    if DEVICE != "cpu":
        pytest.skip("counts the interpreter's requests")
    from triton.runtime.interpreter import InterpreterBuilder, interpreter_builder

    requests = []
    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store

    def note(pointers, mask):
        itemsize = pointers.get_element_ty().primitive_bitwidth // 8
        asked = mask if isinstance(mask, np.ndarray) else mask.data  # descriptors hand over the bare array
        addresses = np.broadcast_to(pointers.data, asked.shape)[asked]
        if addresses.size:
            requests.append((interpreter_builder.grid_idx[0], int(addresses.min()), addresses.size * itemsize))

    def counted_load(self, pointers, mask, *rest, **named):
        note(pointers, mask)
        return load(self, pointers, mask, *rest, **named)

    def counted_store(self, pointers, value, mask, *rest, **named):
        note(pointers, mask)
        return store(self, pointers, value, mask, *rest, **named)

    monkeypatch.setattr(InterpreterBuilder, "create_masked_load", counted_load)
    monkeypatch.setattr(InterpreterBuilder, "create_masked_store", counted_store)

    def by_tensor(tensors, problem):
        starts = {name: tensor.untyped_storage().data_ptr() for name, tensor in tensors.items()}
        in_tensor = defaultdict(list)
        for launched, address, size in requests:
            for name, start in starts.items():
                if start <= address < start + tensors[name].untyped_storage().nbytes():
                    in_tensor[launched, name].append((address - start, size))
        counted = defaultdict(list)
        for (launched, name), sizes in in_tensor.items():
            (offset, _), *others = in_tensor[launched, "Q"]
            assert not others
            row = offset // (problem.head_dim * problem.itemsize)
            program = row // problem.q_len * problem.q_tiles + row % problem.q_len // problem.block_m
            counted[program, name] = [size for _, size in sizes]
        return counted

    return by_tensor


@traced
def test_bytes_match_an_independent_count_of_loads_and_stores(problem, count_requests, monkeypatch):
    from kernels import forward

    tensors = {}

    def keep(query, key, value, **arguments):
        out, lse, launch = launch_forward(query, key, value, **arguments)
        tensors.update(Q=query, K=key, V=value, O=out, lse=lse)
        return out, lse, launch

    launch_forward = forward.flash_forward
    monkeypatch.setattr(forward, "flash_forward", keep)
    run = run_traced(problem)
    counted = count_requests(tensors, problem)
    requested = run.tensor_bytes_read + run.tensor_bytes_written
    assert np.array_equal(run.tensor_bytes_read > 0, (requested > 0) & np.isin(run.tensors, ("Q", "K", "V")))
    for program, (column, name) in itertools.product(np.unique(run.program), enumerate(run.tensors)):
        in_order = requested[run.program == program, column]
        assert list(in_order[in_order > 0]) == counted[program, name], (program, name)


def test_growing_max_rescales_every_step_and_falling_max_never():
    base = AttentionProblem(q_len=32, kv_len=128, head_dim=32, block_m=32, block_n=16)
    growing = run_traced(base.with_(inputs="growing_max"))
    falling = run_traced(base.with_(inputs="falling_max"))
    assert (growing.alpha[1:] < 1).all()
    assert (falling.alpha[1:] == 1).all()


def test_accumulators_are_left_out_beyond_the_limit(monkeypatch):
    problem = AttentionProblem(q_len=32, kv_len=32, head_dim=16, block_m=16, block_n=16)
    monkeypatch.setattr("kernels.recorder.ACC_LIMIT_BYTES", 4 * 16 * 16 * 4 - 1)
    run = run_traced(problem)
    assert run.acc is None
    assert run.output_distance is None
    assert np.isfinite(run.row_max).all()


def test_a_trace_survives_its_file(tmp_path):
    run = run_traced(PROBLEMS[2])
    run.save(tmp_path / "run.npz")
    again = Trace.load(tmp_path / "run.npz")
    for name, value in vars(run).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(getattr(again, name), value)
        else:
            assert getattr(again, name) == value


def test_other_versions_and_other_files_are_refused_by_name(tmp_path, monkeypatch):
    run = run_traced(AttentionProblem(q_len=4, kv_len=4, head_dim=16, block_m=4, block_n=4))
    monkeypatch.setattr(trace, "FORMAT_VERSION", 7)
    newer = run.to_bytes()
    monkeypatch.undo()
    with pytest.raises(InvalidTrace, match="this is flash-attention-trace version 7; expected flash-attention-trace version 1"):
        Trace.load(newer)
    with pytest.raises(InvalidTrace, match="not a trace file"):
        Trace.load(b"hello")
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    with pytest.raises(InvalidTrace, match="no readable header"):
        Trace.load(tmp_path / "other.npz")
    np.savez(tmp_path / "pickled.npz", header=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InvalidTrace, match="not a trace file"):
        Trace.load(tmp_path / "pickled.npz")
    with pytest.raises(InvalidTrace, match="not a trace file"):
        Trace.load(run.to_bytes()[:-40])


def test_a_trace_with_arrays_of_wrong_shape_is_refused():
    run = run_traced(AttentionProblem(q_len=4, kv_len=4, head_dim=16, block_m=4, block_n=4))
    object.__setattr__(run, "row_sum", run.row_sum[:, :2])
    with pytest.raises(InvalidTrace, match=r"row_sum has shape \(1, 2\), expected \(1, 4\)"):
        Trace.load(run.to_bytes())


def test_an_unknown_algorithm_is_refused_by_name():
    with pytest.raises(InvalidProblem, match="algorithm='flash9' is not accepted: expected one of flash2"):
        run_traced(AttentionProblem(), "flash9")
