"""What the backward pass moves: formulas of Chu, Liu and Lin 2026, our kernels, and a run tile by tile."""

import pytest

from kernels import AttentionProblem, run_traced
from kernels.algorithms.chip import FLOAT32_BYTES
from kernels.algorithms.standard.traffic import standard_ledger
from viz.learn.gradients.maths import (
    DRAFT,
    KEY_OUTER,
    QUERY_OUTER,
    TWO_KERNELS,
    backward_work,
)

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
