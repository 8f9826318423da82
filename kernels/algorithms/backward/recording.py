"""What a step of a backward kernel writes down of its matrices."""

from __future__ import annotations

from kernels.algorithms.backward.entry import DK_DV
from kernels.primitives.numbers import LN2
from kernels.primitives.recorder import matrix_numbers, record_matrix

import triton
import triton.language as tl

QK, P = matrix_numbers(DK_DV, "QK^T", "P")
Q, K, V, DO, LSE, D = matrix_numbers(DK_DV, "Q", "K", "V", "dO", "lse", "D")
AFTER_MASK, DP, DS = matrix_numbers(DK_DV, "masked", "dP", "dS")


@triton.jit
def record_tiles(
    trace,
    slot,
    q,
    k,
    v,
    do,
    lse,
    delta,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """Record what a step has loaded; lse is in base 2.

    The kernels have the same figure but for their sums, and so the same numbers of its matrices.
    """
    record_matrix(trace, slot, q, Q, BLOCK_M, BLOCK_D)
    record_matrix(trace, slot, k, K, BLOCK_N, BLOCK_D)
    record_matrix(trace, slot, v, V, BLOCK_N, BLOCK_D)
    record_matrix(trace, slot, do, DO, BLOCK_M, BLOCK_D)
    record_matrix(trace, slot, (lse * LN2)[:, None], LSE, BLOCK_M, 1)
    record_matrix(trace, slot, delta[:, None], D, BLOCK_M, 1)


@triton.jit
def record_after_mask(trace, slot, p_t, dp_t, ds_t, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Record P after the mask, dP and dS, each of which the kernel holds as (BLOCK_N, BLOCK_M)."""
    record_matrix(trace, slot, tl.trans(p_t), AFTER_MASK, BLOCK_M, BLOCK_N)
    record_matrix(trace, slot, tl.trans(dp_t), DP, BLOCK_M, BLOCK_N)
    record_matrix(trace, slot, tl.trans(ds_t), DS, BLOCK_M, BLOCK_N)


@triton.jit
def record_before_mask(trace, slot, scores_t, p_t, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Record the scores, and P before the mask, both held as (BLOCK_N, BLOCK_M)."""
    record_matrix(trace, slot, tl.trans(scores_t), QK, BLOCK_M, BLOCK_N)
    record_matrix(trace, slot, tl.trans(p_t), P, BLOCK_M, BLOCK_N)
