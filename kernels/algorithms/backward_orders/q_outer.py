"""Backward with the query tile outside: dK and dV travel to HBM and back at every step.

Chu, Liu and Lin 2026, algorithm 6.
"""

from kernels.algorithms.backward.recording import DP, DS, MASKED_TILE, QK, P
from kernels.algorithms.backward_orders.recording import (
    Q_WRITES_DQ,
    record_key_step,
    record_query_tile,
    record_step,
)
from kernels.primitives.masking import load_lse, mask_transposed
from kernels.primitives.numbers import matmul, to_operand
from kernels.primitives.recorder import Log, record_made, record_stored, record_turn
from kernels.primitives.tile_io import load_tile, store_tile, tile_view
from kernels.primitives.traversal import end_visited_tile, first_visited_tile

import triton
import triton.language as tl


@triton.jit
def _attn_bwd_q_outer(
    query, key, value, out, d_out, d_query, sum_dk, sum_dv, lse_ptr, strides, kv_heads, group_size, band,
    scale, scale_log2, trace, max_steps, FIXED: tl.constexpr,
):  # fmt: skip
    """All tiles of one key head. sum_dk, sum_dv (batch, kv_heads, kv_len, head_dim), float32, start at 0."""
    BLOCK_M: tl.constexpr = FIXED.BLOCK_M
    BLOCK_N: tl.constexpr = FIXED.BLOCK_N
    BLOCK_D: tl.constexpr = FIXED.BLOCK_D
    batch_kv_head = tl.program_id(0)
    batch, kv_head = batch_kv_head // kv_heads, batch_kv_head % kv_heads
    k_view = tile_view(key, strides.k, batch, kv_head, band.kv_len, FIXED)
    v_view = tile_view(value, strides.v, batch, kv_head, band.kv_len, FIXED)
    dk_view = tile_view(sum_dk, strides.sum, batch, kv_head, band.kv_len, FIXED)
    dv_view = tile_view(sum_dv, strides.sum, batch, kv_head, band.kv_len, FIXED)
    q_tiles = tl.cdiv(band.q_len, BLOCK_M)
    for member_tile in range(0, group_size * q_tiles):
        head = kv_head * group_size + member_tile // q_tiles
        q_tile = member_tile % q_tiles
        batch_head = batch * (kv_heads * group_size) + head
        q_view = tile_view(query, strides.q, batch, head, band.q_len, FIXED)
        o_view = tile_view(out, strides.o, batch, head, band.q_len, FIXED)
        do_view = tile_view(d_out, strides.do, batch, head, band.q_len, FIXED)
        offs_m = q_tile * BLOCK_M + tl.arange(0, BLOCK_M)
        # [load O, dO, lse, Q] (BLOCK_M, BLOCK_D)
        o = load_tile(o_view, q_tile, BLOCK_M, FIXED)
        do = load_tile(do_view, q_tile, BLOCK_M, FIXED)
        delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), axis=1)
        lse_rows = lse_ptr + batch_head.to(tl.int64) * band.q_len
        lse = load_lse(lse_rows, offs_m, band, FIXED)
        q = load_tile(q_view, q_tile, BLOCK_M, FIXED)
        dq_t = tl.zeros((BLOCK_D, BLOCK_M), tl.float32)
        # [end]
        first_kv_tile = first_visited_tile(q_tile, band, BLOCK_M, BLOCK_N)
        end_kv_tile = end_visited_tile(q_tile, band, BLOCK_M, BLOCK_N)
        first_slot = batch_kv_head * max_steps + member_tile * tl.cdiv(band.kv_len, BLOCK_N)
        log = Log(trace.where if FIXED.TRACE else None, trace, first_slot - first_kv_tile, None)
        record_query_tile(log, first_kv_tile, batch_head, q_tile, band.q_len, delta, FIXED)
        for kv_tile in range(first_kv_tile, end_kv_tile):
            record_turn(log, kv_tile)
            # [load K, V, dK, dV] (BLOCK_N, BLOCK_D)
            k = load_tile(k_view, kv_tile, BLOCK_N, FIXED)
            v = load_tile(v_view, kv_tile, BLOCK_N, FIXED)
            dk = load_tile(dk_view, kv_tile, BLOCK_N, FIXED)
            dv = load_tile(dv_view, kv_tile, BLOCK_N, FIXED)
            # [QK^T] (BLOCK_N, BLOCK_M) = (BLOCK_N, BLOCK_D) @ (BLOCK_D, BLOCK_M)
            scores_t = matmul(k, tl.trans(q), tl.zeros((BLOCK_N, BLOCK_M), tl.float32), FIXED)
            record_made(log, kv_tile, tl.trans(scores_t), QK)
            # [P from lse] (BLOCK_N, BLOCK_M)
            p_t = tl.exp2(scores_t * scale_log2 - lse[None, :])
            record_made(log, kv_tile, tl.trans(p_t), P)
            # [mask]
            offs_n = kv_tile * BLOCK_N + tl.arange(0, BLOCK_N)
            p_t = mask_transposed(p_t, q_tile, offs_n, band, FIXED)
            record_made(log, kv_tile, tl.trans(p_t), MASKED_TILE)
            # [dV] (BLOCK_N, BLOCK_D) += (BLOCK_N, BLOCK_M) @ (BLOCK_M, BLOCK_D)
            dv = matmul(to_operand(p_t, FIXED.DTYPE), do, dv, FIXED)
            # [dP] (BLOCK_N, BLOCK_M) = (BLOCK_N, BLOCK_D) @ (BLOCK_D, BLOCK_M)
            dp_t = matmul(v, tl.trans(do), tl.zeros((BLOCK_N, BLOCK_M), tl.float32), FIXED)
            record_made(log, kv_tile, tl.trans(dp_t), DP)
            # [dS]
            ds_t = to_operand(p_t * (dp_t - delta[None, :]) * scale, FIXED.DTYPE)
            record_made(log, kv_tile, tl.trans(ds_t), DS)
            # [dK] (BLOCK_N, BLOCK_D) += (BLOCK_N, BLOCK_M) @ (BLOCK_M, BLOCK_D)
            dk = matmul(ds_t, q, dk, FIXED)
            # [dQ] (BLOCK_D, BLOCK_M) += (BLOCK_D, BLOCK_N) @ (BLOCK_N, BLOCK_M)
            dq_t = matmul(tl.trans(k), ds_t, dq_t, FIXED)
            # [store dK, dV]
            store_tile(dk_view, dk, kv_tile, tl.float32, FIXED)
            store_tile(dv_view, dv, kv_tile, tl.float32, FIXED)
            # [end]
            tl.debug_barrier()  # the next query tile's loads of dK and dV must see these stores
            record_key_step(log, kv_tile, batch_head, q_tile, band.kv_len, dq_t, FIXED)
            record_step(log, kv_tile, kv_tile, band.kv_len, q, k, v, do, lse, delta, p_t, dk, dv)
        # [store dQ]
        dq_view = tile_view(d_query, strides.dq, batch, head, band.q_len, FIXED)
        store_tile(dq_view, tl.trans(dq_t), q_tile, FIXED.DTYPE, FIXED)
        # [end]
        last_tile = tl.maximum(end_kv_tile - 1, first_kv_tile)
        record_stored(log, last_tile, (Q_WRITES_DQ,), q_tile, band.q_len, BLOCK_M, FIXED)
