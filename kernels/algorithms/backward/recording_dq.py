"""What a program of the dQ kernel writes down."""

from kernels.algorithms.backward.entry import DQ, QUERY_PROGRAM
from kernels.algorithms.backward.recording import MASKED_TILE, P, record_share, record_tiles
from kernels.primitives.marks import mark, mark_numbers, mark_tile
from kernels.primitives.recorder import (
    columns_of,
    record_acc,
    record_bytes,
    record_end,
    record_matrices,
    record_rows,
    record_where,
)
from kernels.primitives.tile_io import row_bytes, tile_bytes

import triton
import triton.language as tl

READ_Q, READ_DO, READ_LSE, READ_D, READ_K, READ_V = columns_of(DQ, "read", "Q", "dO", "lse", "D", "K", "V")
(WRITE_DQ,) = columns_of(DQ, "write", "dQ")
_, HAS_K, HAS_S, HAS_P, HAS_V, HAS_DP, HAS_DS, HAS_DQ, WROTE = mark_numbers(
    QUERY_PROGRAM, *QUERY_PROGRAM.marks
)


@triton.jit
def record_query_tile(log, first_tile, batch_head, q_tile, q_len, delta, dq, FIXED: tl.constexpr):
    """Q, dO, lse and D were loaded. This entry stays if the program visits no key tile."""
    if log.where is not None:
        slot = log.slot + first_tile
        record_where(log.trace, slot, batch_head, q_tile, -1)
        q_bytes = tile_bytes(q_tile, q_len, FIXED.BLOCK_M, FIXED.ITEMSIZE, FIXED)
        n_bytes = row_bytes(q_tile, q_len, FIXED.BLOCK_M)
        record_bytes(log.trace, slot, q_bytes, (READ_Q, READ_DO))
        record_bytes(log.trace, slot, n_bytes, (READ_LSE, READ_D))
        record_rows(log.trace, slot, delta * 0.0, 0)
        record_acc(log.trace.acc, slot, dq)


@triton.jit
def record_weights(log, turn, scores, p):
    """The scores after the mask, and P."""
    mark(log.lane, turn, HAS_P)
    if log.where is not None:
        record_matrices(log.trace, log.slot + turn, (scores, p), (MASKED_TILE, P))


@triton.jit
def record_step(
    log, turn, kv_tile, batch_head, q_tile, band, q, k, v, do, lse, delta, p, dq, FIXED: tl.constexpr
):
    """The end of a step: its place, its bytes, what it loaded, and the sum after it."""
    mark(log.lane, turn, HAS_DQ)
    if log.lane is not None:
        mark_tile(log.lane, turn, batch_head * tl.cdiv(band.q_len, FIXED.BLOCK_M) + q_tile, kv_tile)
    if log.where is not None:
        slot = log.slot + turn
        record_where(log.trace, slot, batch_head, q_tile, kv_tile)
        kv_bytes = tile_bytes(kv_tile, band.kv_len, FIXED.BLOCK_N, FIXED.ITEMSIZE, FIXED)
        record_bytes(log.trace, slot, kv_bytes, (READ_K, READ_V))
        record_share(log.trace, slot, p, kv_tile, band.kv_len, 1)
        record_tiles(log.trace, slot, q, k, v, do, lse, delta)
        record_acc(log.trace.acc, slot, dq)
        record_end(log.trace, slot)
