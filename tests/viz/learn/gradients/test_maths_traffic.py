"""What the backward pass moves: formulas of Chu, Liu and Lin 2026, our kernels, and a run tile by tile."""

from collections import Counter

import numpy as np
import pytest

from kernels import AttentionProblem, run_traced
from kernels.algorithms.chip import FLOAT32_BYTES
from kernels.algorithms.standard.traffic import standard_ledger
from kernels.problem.inputs import draw_inputs
from viz.learn.gradients.maths import (
    DRAFT,
    KEY_OUTER,
    QUERY_OUTER,
    TWO_KERNELS,
    attention_gradients,
    backward_work,
)
from viz.learn.softmax.maths import log_sum_exp, softmax
from viz.learn.tiling.maths import span

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


MOVED_IN_LOOP = {
    "_attn_bwd_q_outer": ("K", "V", "dK", "dV"),
    "_attn_bwd_kv_outer": ("Q", "dO", "dQ"),
    "_attn_bwd_dk_dv": ("Q", "dO"),
    "_attn_bwd_dq": ("K", "V"),
}
"""Kernel -> the tensors whose blocks its inner loop moves. Of these, the gradients are sums in float32."""


def counted_inner_loop_elements(trace):
    """What the inner loops of a traced run moved, from the bytes that they asked for."""
    moved = dict(zip(trace.tensors, (trace.tensor_bytes_read + trace.tensor_bytes_written).T, strict=True))
    elements = 0
    for index, kernel in enumerate(trace.kernels):
        for name in MOVED_IN_LOOP.get(kernel, ()):
            size = FLOAT32_BYTES if name in ("dQ", "dK", "dV") else trace.problem.itemsize
            elements += int(moved[name][trace.kernel == index].sum()) // size
    return elements


@pytest.mark.parametrize("order", [QUERY_OUTER, KEY_OUTER, TWO_KERNELS], ids=lambda order: order.label)
def test_the_kernels_count_what_the_model_says_once_sums_are_read_back(order):
    counted = counted_inner_loop_elements(run_traced(RAGGED, order.algorithm))
    assert counted == order.elements(RAGGED)


def test_the_draft_is_algorithm_8_with_o_at_every_step_instead_of_d():
    requested = KEY_OUTER.requested_bytes(SQUARE)
    row, steps = 32 * 2, SQUARE.kv_tiles * 50
    without_d = requested - steps * 4 - 50 * (2 * row + 4)  # nor is D computed before the loop
    assert DRAFT.requested_bytes(SQUARE) == without_d + steps * row


def draft_run(problem):
    """Bytes that the draft (algorithm 7) moves tile by tile, elements of its loop, and its gradients."""
    slow = dict(zip("QKV", (array[0, 0].astype(np.float64) for array in draw_inputs(problem)), strict=True))
    slow |= {f"d{name}": np.zeros_like(array) for name, array in slow.items()}
    scores = slow["Q"] @ slow["K"].T * problem.scale
    slow["lse"] = log_sum_exp(scores)
    slow["O"] = np.exp(scores - slow["lse"][:, None]) @ slow["V"]
    slow["dO"] = np.random.default_rng((problem.seed, 1)).standard_normal(slow["Q"].shape)
    moved = Counter()

    def load(name, rows):
        moved[name] += slow[name][rows].size
        return slow[name][rows]

    def store(name, rows, values):
        moved[name] += values.size
        slow[name][rows] = values

    for keys in (span(j, problem.block_n) for j in range(problem.kv_tiles)):
        key, value = load("K", keys), load("V", keys)
        d_key, d_value = np.zeros_like(key), np.zeros_like(value)
        for rows in (span(i, problem.block_m) for i in range(problem.q_tiles)):
            query, d_output, output, lse = (load(name, rows) for name in ("Q", "dO", "O", "lse"))
            weights = np.exp(query @ key.T * problem.scale - lse[:, None])
            d = (output * d_output).sum(axis=1, keepdims=True)
            d_scores = problem.scale * weights * (d_output @ value.T - d)
            store("dQ", rows, load("dQ", rows) + d_scores @ key)
            d_key += d_scores.T @ query
            d_value += weights.T @ d_output
        store("dK", keys, d_key)
        store("dV", keys, d_value)
    sizes = {name: FLOAT32_BYTES if name in ("dQ", "lse") else problem.itemsize for name in moved}
    return (
        sum(count * sizes[name] for name, count in moved.items()),
        sum(moved[name] for name in ("Q", "dO", "O", "dQ")),
        {name: slow[name] for name in ("dQ", "dK", "dV")},
    )


def test_the_draft_counts_what_the_model_says_and_gives_the_gradients():
    moved, in_loop, gradients = draft_run(RAGGED)
    assert (moved, in_loop) == (DRAFT.requested_bytes(RAGGED), DRAFT.elements(RAGGED))
    query, key, value = (array[0, 0].astype(np.float64) for array in draw_inputs(RAGGED))
    d_output = np.random.default_rng((RAGGED.seed, 1)).standard_normal(query.shape)
    weights = softmax(query @ key.T * RAGGED.scale)
    given = {"Q": query, "K": key, "V": value, "P": weights, "O": weights @ value, "dO": d_output}
    exact = attention_gradients(given, RAGGED.scale)
    for name, gradient in gradients.items():
        assert np.allclose(gradient, exact[name], atol=1e-12)
