"""What a program of the dK-dV kernel writes down."""

from kernels.algorithms.backward.entry import DK_DV, KEY_PROGRAM
from kernels.algorithms.backward.recording import record_share, record_tiles
from kernels.primitives.marks import mark, mark_numbers, mark_tile
from kernels.primitives.recorder import (
    columns_of,
    record_acc,
    record_bytes,
    record_end,
    record_where,
)
from kernels.primitives.tile_io import row_bytes, tile_bytes

import triton
import triton.language as tl

READ_K, READ_V, READ_Q, READ_DO, READ_LSE, READ_D = columns_of(DK_DV, "read", "K", "V", "Q", "dO", "lse", "D")
WRITE_DK, WRITE_DV = columns_of(DK_DV, "write", "dK", "dV")
_, HAS_Q, HAS_S, HAS_P, HAS_DO, HAS_DV, HAS_DP, HAS_DS, HAS_DK, WROTE = mark_numbers(
    KEY_PROGRAM, *KEY_PROGRAM.marks
)


@triton.jit
def record_key_tile(log, batch_head, kv_tile, kv_len, dk, dv, FIXED: tl.constexpr):
    """K and V were loaded. This entry stays if no query tile visits the key tile."""
    if log.where is not None:
        record_where(log.trace, log.slot, batch_head, -1, kv_tile)
        kv_bytes = tile_bytes(kv_tile, kv_len, FIXED.BLOCK_N, FIXED.ITEMSIZE, FIXED)
        record_bytes(log.trace, log.slot, kv_bytes, (READ_K, READ_V))
        record_acc(log.trace.acc, log.slot, dk)
        record_acc(log.trace.acc_2, log.slot, dv)


@triton.jit
def record_step(
    log, turn, q_tile, batch_head, kv_tile, band, q, k, v, do, lse, delta, p_t, dk, dv, FIXED: tl.constexpr
):
    """The end of a step: its place, its bytes, what it loaded, and the sums after it."""
    mark(log.lane, turn, HAS_DK)
    if log.lane is not None:
        mark_tile(log.lane, turn, batch_head * tl.cdiv(band.q_len, FIXED.BLOCK_M) + q_tile, kv_tile)
    if log.where is not None:
        slot = log.slot + turn
        record_where(log.trace, slot, batch_head, q_tile, kv_tile)
        q_bytes = tile_bytes(q_tile, band.q_len, FIXED.BLOCK_M, FIXED.ITEMSIZE, FIXED)
        n_bytes = row_bytes(q_tile, band.q_len, FIXED.BLOCK_M)
        record_bytes(log.trace, slot, q_bytes, (READ_Q, READ_DO))
        record_bytes(log.trace, slot, n_bytes, (READ_LSE, READ_D))
        record_share(log.trace, slot, p_t, kv_tile, band.kv_len, 0)
        record_tiles(log.trace, slot, q, k, v, do, lse, delta)
        record_acc(log.trace.acc, slot, dk)
        record_acc(log.trace.acc_2, slot, dv)
        record_end(log.trace, slot)
