"""What a program of either loop order writes down."""

from kernels.algorithms.backward.recording import record_share, record_tiles
from kernels.algorithms.backward_orders.entry import KV_OUTER, Q_OUTER
from kernels.primitives.recorder import (
    columns_of,
    record_acc,
    record_bytes,
    record_end,
    record_rows,
    record_where,
)
from kernels.primitives.tile_io import row_bytes, tile_bytes

import triton
import triton.language as tl

KV_READS_K, KV_READS_V, KV_READS_Q, KV_READS_DO, KV_READS_LSE, KV_READS_D, KV_READS_DQ = columns_of(
    KV_OUTER, "read", "K", "V", "Q", "dO", "lse", "D", "dQ"
)
KV_WRITES_DQ, KV_WRITES_DK, KV_WRITES_DV = columns_of(KV_OUTER, "write", "dQ", "dK", "dV")
Q_READS_O, Q_READS_DO, Q_READS_LSE, Q_READS_Q = columns_of(Q_OUTER, "read", "O", "dO", "lse", "Q")
Q_READS_K, Q_READS_V, Q_READS_DK, Q_READS_DV = columns_of(Q_OUTER, "read", "K", "V", "dK", "dV")
Q_WRITES_DK, Q_WRITES_DV, Q_WRITES_DQ = columns_of(Q_OUTER, "write", "dK", "dV", "dQ")


@triton.jit
def record_key_tile(log, batch_head, kv_tile, kv_len, FIXED: tl.constexpr):
    """Key outer: K and V were loaded. This entry stays if no query tile visits the key tile."""
    if log.where is not None:
        record_where(log.trace, log.slot, batch_head, -1, kv_tile)
        kv_bytes = tile_bytes(kv_tile, kv_len, FIXED.BLOCK_N, FIXED.ITEMSIZE, FIXED)
        record_bytes(log.trace, log.slot, kv_bytes, (KV_READS_K, KV_READS_V))


@triton.jit
def record_query_step(log, step, batch_head, q_tile, kv_tile, band, dq, FIXED: tl.constexpr):
    """Key outer: the place of a step, its bytes, and dQ after it."""
    if log.where is not None:
        slot = log.slot + step
        record_where(log.trace, slot, batch_head, q_tile, kv_tile)
        q_bytes = tile_bytes(q_tile, band.q_len, FIXED.BLOCK_M, FIXED.ITEMSIZE, FIXED)
        sum_bytes = tile_bytes(q_tile, band.q_len, FIXED.BLOCK_M, 4, FIXED)
        n_bytes = row_bytes(q_tile, band.q_len, FIXED.BLOCK_M)
        record_bytes(log.trace, slot, q_bytes, (KV_READS_Q, KV_READS_DO))
        record_bytes(log.trace, slot, n_bytes, (KV_READS_LSE, KV_READS_D))
        record_bytes(log.trace, slot, sum_bytes, (KV_READS_DQ, KV_WRITES_DQ))
        record_acc(log.trace.acc_3, slot, dq)


@triton.jit
def record_query_tile(log, first_tile, batch_head, q_tile, q_len, delta, FIXED: tl.constexpr):
    """Query outer: O, dO, lse and Q were loaded. This entry stays if the query tile visits no key tile."""
    if log.where is not None:
        slot = log.slot + first_tile
        q_bytes = tile_bytes(q_tile, q_len, FIXED.BLOCK_M, FIXED.ITEMSIZE, FIXED)
        record_where(log.trace, slot, batch_head, q_tile, -1)
        record_bytes(log.trace, slot, q_bytes, (Q_READS_O, Q_READS_DO, Q_READS_Q))
        record_bytes(log.trace, slot, row_bytes(q_tile, q_len, FIXED.BLOCK_M), (Q_READS_LSE,))
        record_rows(log.trace, slot, delta * 0.0, 0)


@triton.jit
def record_key_step(log, kv_tile, batch_head, q_tile, kv_len, dq_t, FIXED: tl.constexpr):
    """Query outer: the place of a step, its bytes, and dQ after it."""
    if log.where is not None:
        slot = log.slot + kv_tile
        record_where(log.trace, slot, batch_head, q_tile, kv_tile)
        kv_bytes = tile_bytes(kv_tile, kv_len, FIXED.BLOCK_N, FIXED.ITEMSIZE, FIXED)
        sum_bytes = tile_bytes(kv_tile, kv_len, FIXED.BLOCK_N, 4, FIXED)
        record_bytes(log.trace, slot, kv_bytes, (Q_READS_K, Q_READS_V))
        record_bytes(log.trace, slot, sum_bytes, (Q_READS_DK, Q_READS_DV, Q_WRITES_DK, Q_WRITES_DV))
        record_acc(log.trace.acc_3, slot, tl.trans(dq_t))


@triton.jit
def record_step(log, step, kv_tile, kv_len, q, k, v, do, lse, delta, p_t, dk, dv):
    """The end of a step: the row sums of P, what it loaded, and dK and dV after it."""
    if log.where is not None:
        slot = log.slot + step
        record_share(log.trace, slot, p_t, kv_tile, kv_len, 0)
        record_tiles(log.trace, slot, q, k, v, do, lse, delta)
        record_acc(log.trace.acc, slot, dk)
        record_acc(log.trace.acc_2, slot, dv)
        record_end(log.trace, slot)
