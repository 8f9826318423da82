"""Every step of a trace against the float64 oracle."""

import numpy as np
import pytest
import torch

from kernels.algorithms import run_traced
from kernels.problem.inputs import make_inputs
from kernels.problem.tiles import visited_tiles
from tests.kernels.helpers import run_forward, tiny
from tests.kernels.oracle.intermediates import oracle
from tests.kernels.trace.problems import traced


def rows_of(run, step):
    first = int(run.q_tile[step]) * run.problem.block_m
    return slice(first, min(first + run.problem.block_m, run.problem.q_len))


def keys_seen(run, step):
    """Keys of the tiles that the step's query tile has visited once the step is done."""
    if run.kv_tile[step] < 0:
        return torch.arange(0)
    first, end = visited_tiles(run.problem, int(run.q_tile[step])).first, int(run.kv_tile[step]) + 1
    return torch.arange(run.problem.kv_len)[first * run.problem.block_n : end * run.problem.block_n]


@pytest.mark.parametrize("algorithm", ["flash2", "flash1"])
@traced
def test_every_step_matches_the_float64_oracle(problem, algorithm):
    run = run_traced(problem, algorithm)
    exact = oracle(*make_inputs(problem), scale=problem.scale, band=problem.band)
    unit_roundoff = torch.finfo(getattr(torch, problem.dtype)).eps
    size = float(exact.value.abs().max())
    row_max_before = {}
    for step in np.flatnonzero(run.q_tile >= 0):
        head, rows = divmod(int(run.batch_head[step]), problem.q_heads), rows_of(run, step)
        count = rows.stop - rows.start
        m, l, acc = (tensor.numpy() for tensor in exact.after_keys(head, rows, keys_seen(run, step)))
        got_m, got_l, got_acc = run.row_max[step, :count], run.row_sum[step, :count], run.acc[step, :count]
        scale = np.maximum(np.abs(np.where(np.isinf(m), 0, m)), 1)
        finite = np.isfinite(m)
        assert np.array_equal(np.isfinite(got_m), finite)
        # Scores are float32 sums of products that are exact in float32: a few roundings of 6e-8 each.
        assert (np.abs(got_m[finite] - m[finite]) <= 2e-6 * scale[finite]).all()
        # An error e of a score moves its exponential by a factor exp(e); the sum and the accumulator follow.
        np.testing.assert_allclose(got_l, l, rtol=1e-5 * scale.max())
        # P is rounded to the type of the inputs before P V. FlashAttention-1 keeps O normalised,
        # FlashAttention-2 in units of its row sum.
        if algorithm == "flash1":
            acc, units = np.divide(acc, l[:, None], where=l[:, None] > 0, out=np.zeros_like(acc)), 1
        else:
            units = max(l.max(), 1)
        assert np.abs(got_acc - acc).max() <= (unit_roundoff + 1e-5 * scale.max()) * size * units
        place = int(run.batch_head[step]), int(run.q_tile[step])
        before = row_max_before.get(place, np.full(count, -np.inf))
        if run.kv_tile[step] >= 0:
            with np.errstate(invalid="ignore"):
                alpha = np.where(np.isinf(before), 0.0, np.exp(before - m))
            np.testing.assert_allclose(run.alpha[step, :count], alpha, rtol=2e-5 * scale.max(), atol=1e-30)
        assert np.isnan(run.row_max[step, count:]).all()
        row_max_before[place] = m


@traced
def test_a_run_visits_the_tiles_of_tiles_py_in_order_and_tracing_changes_no_result(problem):
    run = run_traced(problem)
    assert np.all(np.diff(run.program) >= 0)
    for program in range(problem.batch * problem.q_heads * problem.q_tiles):
        steps = np.flatnonzero(run.program == program)
        assert set(run.q_tile[steps]) == {program % problem.q_tiles}
        assert set(run.batch_head[steps]) == {program // problem.q_tiles}
        visited = visited_tiles(problem, program % problem.q_tiles)
        assert list(run.kv_tile[steps]) == (list(range(visited.first, visited.end)) or [-1])
    out, lse = run_forward(problem)
    assert np.array_equal(run.output, out.float().cpu().numpy())
    assert np.array_equal(run.lse, lse.cpu().numpy())


def test_growing_max_rescales_every_step_and_falling_max_never():
    growing, falling = (run_traced(tiny(16, 64, inputs=f"{name}_max")) for name in ("growing", "falling"))
    assert (growing.alpha[1:] < 1).all()
    assert (falling.alpha[1:] == 1).all()
