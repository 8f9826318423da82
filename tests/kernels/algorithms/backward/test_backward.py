"""The backward kernels by FlashAttention's rule, and every step of their traces against float64."""

import itertools
from collections import defaultdict

import numpy as np
import pytest
import torch

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.backward.launch import flash_backward
from kernels.check.case.cases import TRUSTED_CAUSAL_SHAPES, TRUSTED_SHAPES
from kernels.device.runtime import DEVICE
from kernels.primitives.launch import config_of
from kernels.problem.inputs import make_d_output, make_inputs
from kernels.problem.tiles import visited_tiles, visiting_tiles
from tests.kernels.helpers import assert_gradients_right, problem_id, run_forward, tiny
from tests.kernels.oracle.intermediates import oracle

GRADIENTS = ("d_query", "d_key", "d_value")
ORDERS = {
    "backward": "_attn_bwd_dk_dv",
    "backward_q_outer": "_attn_bwd_q_outer",
    "backward_kv_outer": "_attn_bwd_kv_outer",
}
"""The algorithms with sums of dK and dV, and the kernel of each that adds them up."""

PROBLEMS = [
    tiny(64, 32, 32, 16, mask="causal", dtype="bfloat16"),
    tiny(20, 37, mask="causal", head_dim=24),
    tiny(37, 20, mask="causal", head_dim=20, dtype="float32"),
    tiny(9, 20, batch=2, q_heads=4, kv_heads=2),
    tiny(60, 50, mask="window", window_left=9, window_right=4),
    tiny(9, 13, 4, 8),
]


def run_backward(problem):
    inputs, config = make_inputs(problem, DEVICE), config_of(problem)
    d_out, mask = make_d_output(problem, DEVICE), {"band": problem.band, "scale": problem.scale}
    saved = run_forward(problem, inputs)
    return flash_backward(BackwardInputs(*inputs, *saved, d_out, **mask), config, config).gradients


def exact_intermediates(problem):
    """P, dS without the scale, and D in float64 for every query head: Chu, Liu and Lin 2026, eq 15 to 24."""
    d_out = make_d_output(problem).double()
    forward = oracle(*make_inputs(problem), scale=problem.scale, band=problem.band)
    delta = (d_out * forward.output).sum(dim=-1)
    d_scores = forward.weights * (d_out @ forward.value.transpose(-1, -2) - delta[..., None])
    return forward.weights, d_scores, delta


def places_of(run, kernel):
    """(step, batch, query head, key head, rows, keys) of every tile step of a kernel."""
    problem = run.problem
    of_kernel = run.kernel == run.kernels.index(kernel)
    for step in np.flatnonzero(of_kernel & (run.q_tile >= 0) & (run.kv_tile >= 0)):
        batch, head = divmod(int(run.batch_head[step]), problem.q_heads)
        first_row, first_key = run.q_tile[step] * problem.block_m, run.kv_tile[step] * problem.block_n
        rows = slice(first_row, min(first_row + problem.block_m, problem.q_len))
        keys = slice(first_key, min(first_key + problem.block_n, problem.kv_len))
        yield step, batch, head, head // problem.group_size, rows, keys


def assert_near(got, expected, eps):
    size = max(float(expected.abs().max()), 1.0)
    np.testing.assert_allclose(got[: len(expected)], expected.numpy(), atol=(8 * eps + 1e-5) * size * 4)


@pytest.mark.parametrize("algorithm", ORDERS)
@pytest.mark.parametrize("problem", PROBLEMS, ids=problem_id)
def test_gradients_and_every_step_match_float64_and_tracing_changes_no_bit(problem, algorithm, poisoned):
    """dK and dV, then dQ, tile by tile. A sum lacks the factor that is due at its end."""
    run, eps = run_traced(problem, algorithm), torch.finfo(getattr(torch, problem.dtype)).eps
    assert_gradients_right(problem, [torch.from_numpy(getattr(run, name)) for name in GRADIENTS])
    weights, d_scores, delta = exact_intermediates(problem)
    (query, key, _), d_out = (each.double() for each in make_inputs(problem)), make_d_output(problem).double()
    sums, due = defaultdict(float), problem.scale if algorithm == "backward" else 1
    for step, batch, head, kv_head, rows, keys in places_of(run, ORDERS[algorithm]):
        p, ds = weights[batch, head][rows, keys], d_scores[batch, head][rows, keys]
        sums["dk", batch, kv_head, keys.start] += problem.scale * ds.T @ query[batch, head][rows]
        sums["dv", batch, kv_head, keys.start] += p.T @ d_out[batch, head][rows]
        assert_near(run.acc_dk[step], sums["dk", batch, kv_head, keys.start] / due, eps)
        assert_near(run.acc_dv[step], sums["dv", batch, kv_head, keys.start], eps)
        np.testing.assert_allclose(run.row_share[step, : len(p)], p.sum(dim=1).numpy(), atol=1e-4)
    for step, batch, head, kv_head, rows, keys in places_of(run, run.kernels[-1]):
        place = "dq", batch, head, rows.start
        sums[place] += problem.scale * d_scores[batch, head][rows, keys] @ key[batch, kv_head][keys]
        assert_near(run.acc[step], sums[place] / due, eps)
    if algorithm != "backward":
        return
    np.testing.assert_allclose(run.delta, delta.numpy(), atol=4 * eps * problem.head_dim)
    for name, got in zip(GRADIENTS, run_backward(problem), strict=True):
        assert np.array_equal(getattr(run, name), got.float().cpu().numpy())
    assert_visits_the_tiles_of_tiles_py(run)


def assert_visits_the_tiles_of_tiles_py(run):
    """Key tile by key tile in the kernel of dK and dV, query tile by query tile in that of dQ."""
    problem, (kept, streamed) = run.problem, (run.kv_tile, run.q_tile)
    for kernel, tiles, span_of, times in (
        (1, problem.kv_tiles, visiting_tiles, problem.group_size),
        (2, problem.q_tiles, visited_tiles, 1),
    ):
        for program in np.unique(run.program[run.kernel == kernel]):
            steps = np.flatnonzero((run.kernel == kernel) & (run.program == program))
            span = span_of(problem, int(program) % tiles)
            assert list(streamed[steps]) == ([*range(span.first, span.end)] * times or [-1])
            assert set(kept[steps]) == {program % tiles}
        kept, streamed = streamed, kept


def test_the_query_outer_order_moves_more():
    """Chu, Liu and Lin 2026: 4 T_r |J| d in the inner loop against 3 T_c |I| d."""
    problem = tiny(128, 128)
    dk_dv = ALGORITHMS["backward"].kernels[1].requested_bytes(problem)
    assert ALGORITHMS["backward_q_outer"].requested_bytes(problem) > 1.3 * dk_dv


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
