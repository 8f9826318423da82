"""What the backward pass moves: formulas of Chu, Liu and Lin 2026, our kernels, and a run tile by tile."""

import numpy as np
import pytest

from kernels import AttentionProblem, run_traced
from kernels.algorithms import ALGORITHMS
from kernels.algorithms.standard.traffic import standard_ledger
from viz.learn.gradients.maths import attention_gradients
from viz.learn.gradients.maths_traffic import (
    DRAFT,
    KEY_OUTER,
    MOST_STEPS,
    QUERY_OUTER,
    TWO_KERNELS,
    backward_work,
    can_run,
    counted_elements,
    counted_inner_loop_elements,
    draft_bytes,
    inputs_of,
    key_outer_run,
    row_wise_backward,
)

WHOLE = AttentionProblem(q_len=32, kv_len=64, head_dim=16, block_m=16, block_n=32)
RAGGED = AttentionProblem(q_len=20, kv_len=35, head_dim=16, dtype="float32", block_m=16, block_n=16, seed=3)
SQUARE = AttentionProblem(q_len=50, kv_len=50, head_dim=32, block_m=32, block_n=16)


def test_the_printed_formulas():
    moved, work = standard_ledger(SQUARE, "backward"), backward_work(SQUARE)
    assert sum(moved[name] for name in ("P", "dP", "dS")) == 7 * 50**2 * 2
    assert work["standard"] == 8 * 50**2 * 32 + 2 * 50**2 + 2 * 50 * 32
    assert work["all"] - work["standard"] == 2 * 50**2 * 32
    problem = AttentionProblem(q_len=128, kv_len=128, head_dim=64, block_m=32, block_n=16)
    q_tiles, kv_tiles, block = 4, 8, 128 * 64  # times all tiles, with the sums that are read back
    assert QUERY_OUTER.elements(problem) == (4 + 2) * q_tiles * block
    assert KEY_OUTER.elements(problem) == (3 + 1) * kv_tiles * block
    assert DRAFT.elements(problem) == (4 + 1) * kv_tiles * block
    assert TWO_KERNELS.elements(problem) == 2 * (q_tiles + kv_tiles) * block


@pytest.mark.parametrize("order", [QUERY_OUTER, KEY_OUTER, TWO_KERNELS], ids=lambda order: order.slug)
def test_the_kernels_count_what_the_model_says_once_sums_are_read_back(order):
    counted = counted_inner_loop_elements(run_traced(RAGGED, order.algorithm))
    assert counted == order.elements(RAGGED)


@pytest.mark.parametrize("problem", [WHOLE, RAGGED, SQUARE], ids=["whole tiles", "ragged", "square"])
@pytest.mark.parametrize("order", [DRAFT, KEY_OUTER], ids=lambda order: order.slug)
def test_the_run_tile_by_tile_gives_the_gradients_and_moves_what_the_models_say(order, problem):
    given, run = inputs_of(problem), key_outer_run(problem, order)
    weights = np.exp(given["Q"] @ given["K"].T * problem.scale - given["lse"][:, None])
    right = attention_gradients(given | {"P": weights}, problem.scale)
    for name, values in run.gradients.items():
        np.testing.assert_allclose(values, right[name], atol=1e-12)
    assert sum(run.elements_in_loop.values()) == order.elements(problem)
    if order is KEY_OUTER:
        assert run.bytes_moved == ALGORITHMS["backward_kv_outer"].requested_bytes(problem)
    elif problem is SQUARE:
        assert run.bytes_moved == draft_bytes(problem)


def test_row_wise_backward_moves_eight_matrices_if_all_fits_and_nothing_if_no_row_does():
    all_fits = 2 * (8 * 50 * 32 + 2 * 50)
    assert row_wise_backward(SQUARE, all_fits) == (50, 8 * 50 * 32 * 2)
    assert row_wise_backward(SQUARE, all_fits - 2)[0] == 50
    long = AttentionProblem(q_len=1024, kv_len=1024, head_dim=64)
    rows, moved = row_wise_backward(long, 64 << 10)
    assert (rows, moved) == (16, 1024 * 64 * (4 * 2 + 64 * (2 * 2 + 4 * 4)))
    assert row_wise_backward(long, 1024) == (0, 0)


def test_long_runs_are_refused():
    long = AttentionProblem(q_len=MOST_STEPS, kv_len=64, head_dim=16, block_m=4, block_n=4)
    assert can_run(AttentionProblem(q_len=1024, kv_len=1024, head_dim=64))
    assert not can_run(AttentionProblem(q_len=65536, kv_len=65536))
    assert counted_elements(long, {}) == {}
    assert set(counted_elements(WHOLE, {})) == {DRAFT.slug, KEY_OUTER.slug}
