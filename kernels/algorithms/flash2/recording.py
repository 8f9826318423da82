"""What a program of a forward kernel writes down: bytes, the online softmax, matrices and marks.

Kernels that keep a query tile share it: the columns of their bytes and their figures are the same.
"""

from kernels.algorithms.flash2.entry import FORWARD, WARPS
from kernels.primitives.marks import mark, mark_numbers, mark_tile
from kernels.primitives.recorder import (
    columns_of,
    matrix_numbers,
    record_acc,
    record_bytes,
    record_end,
    record_matrices,
    record_matrix,
    record_state,
    record_where,
)
from kernels.primitives.tile_io import row_bytes, tile_bytes

import triton
import triton.language as tl

READ_Q, READ_K, READ_V = columns_of(FORWARD, "read", "Q", "K", "V")
WRITE_O, WRITE_LSE = columns_of(FORWARD, "write", "O", "lse")
Q, K, QK, S, P, V, RESCALED = matrix_numbers(FORWARD, "Q", "K", "QK^T", "S", "P", "V", "O rescaled")
_, HAS_S, HAS_P, DONE, WROTE = mark_numbers(WARPS, *WARPS.marks)


@triton.jit
def record_query(log, first_tile, batch_head, q_tile, n_rows, m, l, acc, FIXED: tl.constexpr):
    """Q was loaded. This entry stays if the program visits no key tile. Without `acc` it has no sum."""
    if log.where is not None:
        slot = log.slot + first_tile
        record_where(log.trace, slot, batch_head, q_tile, -1)
        q_bytes = tile_bytes(q_tile, n_rows, FIXED.BLOCK_M, FIXED.ITEMSIZE, FIXED)
        record_bytes(log.trace, slot, q_bytes, (READ_Q,))
        record_state(log.trace, slot, m, l, l + 1)
        if acc is not None:
            record_acc(log.trace.acc, slot, acc)


@triton.jit
def record_softmax(log, turn, scores, p, acc, MASKED: tl.constexpr):
    """The scores after the mask, if there was one, their exponentials, and O after the rescale."""
    mark(log.lane, turn, HAS_P)
    if log.where is not None:
        slot = log.slot + turn
        if MASKED:
            record_matrix(log.trace, slot, scores, S)
        record_matrices(log.trace, slot, (p, acc), (P, RESCALED))


@triton.jit
def record_step(log, turn, kv_tile, batch_head, q_tile, band, q, k, v, m, l, alpha, acc, FIXED: tl.constexpr):
    """The end of a step: its place, its bytes, what it loaded, and the state after it."""
    if log.lane is not None:
        mark_tile(log.lane, turn, batch_head * tl.cdiv(band.q_len, FIXED.BLOCK_M) + q_tile, kv_tile)
    if log.where is not None:
        slot = log.slot + turn
        record_where(log.trace, slot, batch_head, q_tile, kv_tile)
        n_bytes = tile_bytes(kv_tile, band.kv_len, FIXED.BLOCK_N, FIXED.ITEMSIZE, FIXED)
        record_bytes(log.trace, slot, n_bytes, (READ_K, READ_V))
        record_matrices(log.trace, slot, (q, k, v), (Q, K, V))
        record_state(log.trace, slot, m, l, alpha)
        record_acc(log.trace.acc, slot, acc)
        record_end(log.trace, slot)


@triton.jit
def mark_part(log, from_tile, to_tile):
    """The last product of key tiles [from_tile, to_tile) is done."""
    if log.lane is not None and to_tile > from_tile:
        mark(log.lane, to_tile - 1, DONE)


@triton.jit
def record_output(log, last_tile, q_tile, n_rows, ITEMSIZE: tl.constexpr, FIXED: tl.constexpr):
    """O, in so many bytes per number, and lse were stored."""
    mark(log.lane, last_tile, WROTE)
    if log.where is not None:
        slot = log.slot + last_tile
        o_bytes = tile_bytes(q_tile, n_rows, FIXED.BLOCK_M, ITEMSIZE, FIXED)
        record_bytes(log.trace, slot, o_bytes, (WRITE_O,))
        record_bytes(log.trace, slot, row_bytes(q_tile, n_rows, FIXED.BLOCK_M), (WRITE_LSE,))
