"""The backward kernels by FlashAttention's rule, and every step of their traces against float64."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.backward.launch import flash_backward
from kernels.algorithms.flash2.forward import flash_forward
from kernels.check.case.cases import TRUSTED_CAUSAL_SHAPES, TRUSTED_SHAPES
from kernels.device.runtime import DEVICE
from kernels.primitives.launch import config_of
from kernels.problem.inputs import make_d_output, make_inputs
from kernels.problem.tiles import visited_tiles, visiting_tiles
from tests.kernels.helpers import assert_gradients_right, problem_id, tiny
from tests.kernels.oracle.intermediates import oracle

GRADIENTS = ("d_query", "d_key", "d_value")
ORDERS = {
    "backward": "_attn_bwd_dk_dv",
    "backward_q_outer": "_attn_bwd_q_outer",
    "backward_kv_outer": "_attn_bwd_kv_outer",
}
"""The algorithms with sums of dK and dV, and the kernel of each that adds them up."""

PROBLEMS = [
    tiny(64, 64, 16, 32),
    tiny(64, 64, 32, 16, mask="causal", dtype="bfloat16"),
    tiny(45, 77, mask="causal", head_dim=24),
    tiny(77, 45, mask="causal", head_dim=20, dtype="float32"),
    tiny(33, 50, batch=2, q_heads=4, kv_heads=2),
    tiny(60, 50, mask="window", window_left=9, window_right=4),
    tiny(17, 13, 4, 8, mask="causal"),
]
traced = pytest.mark.parametrize("problem", PROBLEMS, ids=problem_id)


def run_backward(problem):
    inputs = make_inputs(problem, DEVICE)
    mask = {"band": problem.band, "scale": problem.scale}
    config = config_of(problem)
    out, lse, _ = flash_forward(*inputs, config=config, **mask)
    return flash_backward(
        BackwardInputs(*inputs, out, lse, make_d_output(problem, DEVICE), **mask), config, config
    )


@dataclass(frozen=True)
class Exact:
    """P, dS without the scale, D and its two factors in float64, for every query head."""

    weights: torch.Tensor
    d_scores: torch.Tensor
    delta: torch.Tensor
    query: torch.Tensor
    d_out: torch.Tensor


def exact_intermediates(problem):
    """By Chu, Liu and Lin 2026, eq 15 to 24."""
    query, key, value = make_inputs(problem)
    d_out = make_d_output(problem).double()
    forward = oracle(query, key, value, scale=problem.scale, band=problem.band)
    delta = (d_out * forward.output).sum(dim=-1)
    d_scores = forward.weights * (d_out @ forward.value.transpose(-1, -2) - delta[..., None])
    return Exact(forward.weights, d_scores, delta, query.double(), d_out)


@pytest.mark.parametrize("algorithm", ORDERS)
@traced
def test_gradients_are_right_and_tracing_changes_no_bit(problem, algorithm, poisoned):
    run = run_traced(problem, algorithm)
    assert_gradients_right(problem, [torch.from_numpy(getattr(run, name)) for name in GRADIENTS])
    if algorithm == "backward":
        for name, got in zip(GRADIENTS, run_backward(problem), strict=True):
            assert np.array_equal(getattr(run, name), got.float().cpu().numpy())


def rows_and_keys(problem, q_tile, kv_tile):
    rows = slice(q_tile * problem.block_m, min((q_tile + 1) * problem.block_m, problem.q_len))
    keys = slice(kv_tile * problem.block_n, min((kv_tile + 1) * problem.block_n, problem.kv_len))
    return rows, keys


@traced
def test_delta_and_the_shares_of_attention_match_float64(problem):
    run, exact = run_traced(problem, "backward"), exact_intermediates(problem)
    eps = torch.finfo(getattr(torch, problem.dtype)).eps
    np.testing.assert_allclose(run.delta, exact.delta.numpy(), atol=4 * eps * problem.head_dim)
    for step in np.flatnonzero((run.kernel > 0) & (run.kv_tile >= 0) & (run.q_tile >= 0)):
        head = divmod(int(run.batch_head[step]), problem.q_heads)
        rows, keys = rows_and_keys(problem, int(run.q_tile[step]), int(run.kv_tile[step]))
        share = exact.weights[head][rows, keys].sum(dim=1).numpy()
        np.testing.assert_allclose(run.row_share[step, : len(share)], share, atol=1e-4)


@pytest.mark.parametrize("algorithm", ORDERS)
@traced
def test_every_partial_sum_of_dk_and_dv_matches_float64(problem, algorithm):
    run, exact = run_traced(problem, algorithm), exact_intermediates(problem)
    kernel = run.kernels.index(ORDERS[algorithm])
    scale = 1.0 if algorithm == "backward" else problem.scale  # the fast kernel scales dK once, at the end
    eps = torch.finfo(getattr(torch, problem.dtype)).eps
    sums = {}
    for step in np.flatnonzero((run.kernel == kernel) & (run.q_tile >= 0) & (run.kv_tile >= 0)):
        batch, head = divmod(int(run.batch_head[step]), problem.q_heads)
        q_tile, kv_tile = int(run.q_tile[step]), int(run.kv_tile[step])
        rows, keys = rows_and_keys(problem, q_tile, kv_tile)
        place = batch, head * problem.kv_heads // problem.q_heads, kv_tile
        dk, dv = sums.get(place, (0, 0))
        dk = dk + exact.d_scores[batch, head][rows, keys].T @ exact.query[batch, head][rows] * scale
        dv = dv + exact.weights[batch, head][rows, keys].T @ exact.d_out[batch, head][rows]
        sums[place] = dk, dv
        for got, expected in ((run.acc_dk[step], dk), (run.acc_dv[step], dv)):
            size = max(float(expected.abs().max()), 1.0)
            np.testing.assert_allclose(
                got[: len(expected)], expected.numpy(), atol=(8 * eps + 1e-5) * size * 4
            )


@traced
@pytest.mark.parametrize("algorithm", ORDERS)
def test_every_partial_sum_of_dq_matches_float64(problem, algorithm):
    run, exact = run_traced(problem, algorithm), exact_intermediates(problem)
    sums = [(kernel, each) for kernel in ALGORITHMS[algorithm].kernels for each in kernel.sums]
    ((kernel, dq_sum),) = ((kernel, each) for kernel, each in sums if each.result == "d_query")
    of_kernel = run.kernel == run.kernels.index(kernel.name)
    keys_of_head = make_inputs(problem)[1].double()
    eps = torch.finfo(getattr(torch, problem.dtype)).eps
    for turn in set(zip(run.batch_head[of_kernel], run.q_tile[of_kernel], strict=True)):
        total = 0
        of_turn = of_kernel & (run.batch_head == turn[0]) & (run.q_tile == turn[1])
        for step in np.flatnonzero(of_turn & (run.kv_tile >= 0)):
            batch, head = divmod(int(run.batch_head[step]), problem.q_heads)
            rows, keys = rows_and_keys(problem, int(run.q_tile[step]), int(run.kv_tile[step]))
            kv_head = head * problem.kv_heads // problem.q_heads
            total = total + exact.d_scores[batch, head][rows, keys] @ keys_of_head[batch, kv_head][keys]
            size = max(float(total.abs().max()), 1.0)
            np.testing.assert_allclose(
                dq_sum.factor(problem) * run.acc[step, : len(total)],
                problem.scale * total.numpy(),
                atol=(8 * eps + 1e-5) * size * 4 * problem.scale,
            )


@traced
def test_steps_visit_the_tiles_of_tiles_py(problem):
    run = run_traced(problem, "backward")
    group = problem.q_heads // problem.kv_heads
    for program in np.unique(run.program[run.kernel == 1]):
        steps = np.flatnonzero((run.kernel == 1) & (run.program == program))
        tiles_of_program = visiting_tiles(problem, int(program) % problem.kv_tiles)
        expected = list(range(tiles_of_program.first, tiles_of_program.end)) * group
        assert list(run.q_tile[steps]) == (expected or [-1])
        assert set(run.kv_tile[steps]) == {program % problem.kv_tiles}
    for program in np.unique(run.program[run.kernel == 2]):
        steps = np.flatnonzero((run.kernel == 2) & (run.program == program))
        visited = visited_tiles(problem, int(program) % problem.q_tiles)
        assert list(run.kv_tile[steps]) == (list(range(visited.first, visited.end)) or [-1])


def test_the_query_outer_order_moves_more(poisoned):
    """Chu, Liu and Lin 2026: 4 T_r |J| d in the inner loop against 3 T_c |I| d."""
    problem = tiny(128, 128)
    key_outer, query_outer = run_traced(problem, "backward"), run_traced(problem, "backward_q_outer")
    assert query_outer.total_bytes > 1.3 * (
        key_outer.total_bytes - key_outer.tensor_bytes_read[key_outer.kernel == 2].sum()
    )


def test_rows_and_keys_that_nobody_sees_have_zero_gradients(poisoned):
    problem = tiny(60, 90, mask="window", window_left=5, window_right=0)
    _, d_key, d_value = run_backward(problem)
    assert not d_key[0, 0, :25].any()
    assert not d_value[0, 0, :25].any()
    d_query, _, _ = run_backward(problem.with_(q_len=90, kv_len=60, mask="causal"))
    assert not d_query[0, 0, :30].any()
    assert d_query.isfinite().all()


FLASH_ATTENTION_LIST = [
    tiny(*lengths, block, block, mask=mask, head_dim=d, dtype=dtype, batch=2, q_heads=6, kv_heads=kv_heads)
    for mask in ("full", "causal", "window")
    for lengths in TRUSTED_SHAPES + (TRUSTED_CAUSAL_SHAPES if mask == "causal" else ())
    for d, block in (*((d, 64) for d in (16, 32, 40, 64, 96, 111, 128)), (192, 32), (256, 32))
    for dtype in ("float16", "bfloat16")
    for kv_heads in ((6, 2, 1) if d == 64 else (6,))
]
IN_FLOAT32 = [
    tiny(300, 333, 32, 32, mask=mask, head_dim=head_dim, dtype="float32")
    for mask in ("full", "causal")
    for head_dim in (16, 64, 128)
]
TILE_SIZES = [
    tiny(200, 328, *blocks, mask="causal", head_dim=64)
    for blocks in itertools.product((16, 32, 64, 128), repeat=2)
]


@pytest.mark.gpu
@pytest.mark.parametrize("problem", [*FLASH_ATTENTION_LIST, *IN_FLOAT32, *TILE_SIZES], ids=problem_id)
def test_on_a_gpu_flash_attentions_own_list_float32_and_every_tile_size_are_right(problem, poisoned):
    assert_gradients_right(problem, run_backward(problem))
