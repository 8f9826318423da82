"""What the backward kernels write down alike, and what the kernel that computes D does."""

from kernels.algorithms.backward.entry import DK_DV, PREPROCESS
from kernels.primitives.numbers import LN2
from kernels.primitives.recorder import (
    columns_of,
    matrix_numbers,
    record_bytes,
    record_end,
    record_matrices,
    record_rows,
    record_where,
)
from kernels.primitives.tile_io import row_bytes, tile_bytes

import triton
import triton.language as tl

READ_O, READ_DO = columns_of(PREPROCESS, "read", "O", "dO")
(WRITE_D,) = columns_of(PREPROCESS, "write", "D")
QK, P, MASKED_TILE, DP, DS = matrix_numbers(DK_DV, "QK^T", "P", "masked", "dP", "dS")
O_ROWS, DO_ROWS, D_ROWS = matrix_numbers(PREPROCESS, "O", "dO", "D")
Q, K, V, DO, LSE, D = matrix_numbers(DK_DV, "Q", "K", "V", "dO", "lse", "D")
"""The kernels have the same figure but for their sums, and so the same numbers of its matrices."""


@triton.jit
def record_tiles(trace, slot, q, k, v, do, lse, delta):
    """Record what a step has loaded; lse is in base 2."""
    record_matrices(trace, slot, (q, k, v, do), (Q, K, V, DO))
    record_matrices(trace, slot, ((lse * LN2)[:, None], delta[:, None]), (LSE, D))


@triton.jit
def record_share(trace, slot, p, kv_tile, kv_len, KEYS: tl.constexpr):
    """Record the row sums of a tile of P, whose axis KEYS is that of the keys."""
    BLOCK_N: tl.constexpr = p.shape[KEYS]
    exists = kv_tile * BLOCK_N + tl.arange(0, BLOCK_N) < kv_len
    p = tl.where(tl.expand_dims(exists, 1 - KEYS), p, 0.0)
    record_rows(trace, slot, tl.sum(p, axis=KEYS), 0)


@triton.jit
def record_delta(log, q_tile, batch_head, q_len, o, do, delta, FIXED: tl.constexpr):
    """D of a query tile is stored: the only step of its program."""
    if log.where is not None:
        slot = log.slot + q_tile
        record_where(log.trace, slot, batch_head, q_tile, -1)
        q_bytes = tile_bytes(q_tile, q_len, FIXED.BLOCK_M, FIXED.ITEMSIZE, FIXED)
        record_bytes(log.trace, slot, q_bytes, (READ_O, READ_DO))
        record_bytes(log.trace, slot, row_bytes(q_tile, q_len, FIXED.BLOCK_M), (WRITE_D,))
        record_matrices(log.trace, slot, (o, do, delta[:, None]), (O_ROWS, DO_ROWS, D_ROWS))
        record_end(log.trace, slot)
