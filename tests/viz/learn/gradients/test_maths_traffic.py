"""What the backward pass moves: formulas of Chu, Liu and Lin 2026, our kernels, and a run tile by tile."""

import numpy as np
import pytest

from kernels import AttentionProblem, run_traced
from kernels.algorithms.standard.traffic import standard_ledger
from kernels.problem.inputs import draw_inputs
from viz.learn.gradients.maths import (
    DRAFT,
    KEY_OUTER,
    QUERY_OUTER,
    TWO_KERNELS,
    attention_gradients,
    backward_work,
    counted_inner_loop_elements,
    draft_run,
    row_wise_backward,
)
from viz.learn.softmax.maths import softmax

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


@pytest.mark.parametrize("order", [QUERY_OUTER, KEY_OUTER, TWO_KERNELS], ids=lambda order: order.label)
def test_the_kernels_count_what_the_model_says_once_sums_are_read_back(order):
    counted = counted_inner_loop_elements(run_traced(RAGGED, order.algorithm))
    assert counted == order.elements(RAGGED)


def test_the_draft_is_algorithm_8_with_o_at_every_step_instead_of_d():
    requested = KEY_OUTER.requested_bytes(SQUARE)
    row, steps = 32 * 2, SQUARE.kv_tiles * 50
    without_d = requested - steps * 4 - 50 * (2 * row + 4)  # nor is D computed before the loop
    assert DRAFT.requested_bytes(SQUARE) == without_d + steps * row


def test_the_draft_counts_what_the_model_says_and_gives_the_gradients():
    run = draft_run(RAGGED)
    assert (run.bytes_moved, run.elements_in_loop) == (DRAFT.requested_bytes(RAGGED), DRAFT.elements(RAGGED))
    query, key, value = (array[0, 0].astype(np.float64) for array in draw_inputs(RAGGED))
    d_output = np.random.default_rng((RAGGED.seed, 1)).standard_normal(query.shape)
    weights = softmax(query @ key.T * RAGGED.scale)
    given = {"Q": query, "K": key, "V": value, "P": weights, "O": weights @ value, "dO": d_output}
    exact = attention_gradients(given, RAGGED.scale)
    for name, gradient in run.gradients.items():
        assert np.allclose(gradient, exact[name], atol=1e-12)
    assert draft_run(RAGGED.with_(q_len=1 << 15)) is None


def test_row_wise_backward_moves_eight_matrices_if_all_fits_and_nothing_if_no_row_does():
    all_fits = 2 * (8 * 50 * 32 + 2 * 50)
    assert row_wise_backward(SQUARE, all_fits) == (50, 8 * 50 * 32 * 2)
    assert row_wise_backward(SQUARE, all_fits - 2)[0] == 50
    long = AttentionProblem(q_len=1024, kv_len=1024, head_dim=64)
    rows, moved = row_wise_backward(long, 64 << 10)
    assert (rows, moved) == (16, 1024 * 64 * (4 * 2 + 64 * (2 * 2 + 4 * 4)))
    assert row_wise_backward(long, 1024) == (0, 0)
