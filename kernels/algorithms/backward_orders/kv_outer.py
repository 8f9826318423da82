"""Backward with the key tile outside: dQ travels to HBM and back at every step.

Chu, Liu and Lin 2026, algorithm 8.
"""

from kernels.algorithms.backward.recording import DP, DS, MASKED_TILE, QK, P
from kernels.algorithms.backward_orders.recording import (
    KV_WRITES_DK,
    KV_WRITES_DV,
    record_key_tile,
    record_query_step,
    record_step,
)
from kernels.primitives.masking import load_lse, mask_transposed
from kernels.primitives.numbers import matmul, to_operand
from kernels.primitives.recorder import Log, record_made, record_stored, record_turn
from kernels.primitives.tile_io import load_rows, load_tile, store_tile, tile_view
from kernels.primitives.traversal import visiting_key_tile

import triton
import triton.language as tl


@triton.jit
def _attn_bwd_kv_outer(
    query, key, value, d_out, sum_dq, d_key, d_value, lse_ptr, delta_ptr, strides, kv_heads, group_size,
    band, scale, scale_log2, trace, max_steps, FIXED: tl.constexpr,
):  # fmt: skip
    """All tiles of one key head. sum_dq (batch, q_heads, q_len, head_dim), float32, starts at 0."""
    BLOCK_M: tl.constexpr = FIXED.BLOCK_M
    BLOCK_N: tl.constexpr = FIXED.BLOCK_N
    BLOCK_D: tl.constexpr = FIXED.BLOCK_D
    batch_kv_head = tl.program_id(0)
    batch, kv_head = batch_kv_head // kv_heads, batch_kv_head % kv_heads
    k_view = tile_view(key, strides.k, batch, kv_head, band.kv_len, FIXED)
    v_view = tile_view(value, strides.v, batch, kv_head, band.kv_len, FIXED)
    dk_view = tile_view(d_key, strides.dk, batch, kv_head, band.kv_len, FIXED)
    dv_view = tile_view(d_value, strides.dv, batch, kv_head, band.kv_len, FIXED)
    for kv_tile in range(0, tl.cdiv(band.kv_len, BLOCK_N)):
        offs_n = kv_tile * BLOCK_N + tl.arange(0, BLOCK_N)
        # [load K, V] (BLOCK_N, BLOCK_D)
        k = load_tile(k_view, kv_tile, BLOCK_N, FIXED)
        v = load_tile(v_view, kv_tile, BLOCK_N, FIXED)
        dk = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
        dv = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
        # [end]
        most_steps = group_size * tl.cdiv(band.q_len, BLOCK_M)
        log = Log(
            trace.where if FIXED.TRACE else None,
            trace,
            batch_kv_head * max_steps + kv_tile * most_steps,
            None,
        )
        record_key_tile(log, batch_kv_head * group_size, kv_tile, band.kv_len, FIXED)
        first_q_tile, _, _, end_q_tile = visiting_key_tile(kv_tile, band, BLOCK_M, BLOCK_N)
        q_tiles = tl.maximum(end_q_tile - first_q_tile, 0)
        for step in range(0, group_size * q_tiles):
            head = kv_head * group_size + step // q_tiles
            q_tile = first_q_tile + step % q_tiles
            batch_head = batch * (kv_heads * group_size) + head
            offs_m = q_tile * BLOCK_M + tl.arange(0, BLOCK_M)
            q_view = tile_view(query, strides.q, batch, head, band.q_len, FIXED)
            do_view = tile_view(d_out, strides.do, batch, head, band.q_len, FIXED)
            dq_view = tile_view(sum_dq, strides.sum, batch, head, band.q_len, FIXED)
            rows = batch_head.to(tl.int64) * band.q_len
            record_turn(log, step)
            # [load Q, dO] (BLOCK_M, BLOCK_D)
            q = load_tile(q_view, q_tile, BLOCK_M, FIXED)
            do = load_tile(do_view, q_tile, BLOCK_M, FIXED)
            # [QK^T] (BLOCK_N, BLOCK_M) = (BLOCK_N, BLOCK_D) @ (BLOCK_D, BLOCK_M)
            scores_t = matmul(k, tl.trans(q), tl.zeros((BLOCK_N, BLOCK_M), tl.float32), FIXED)
            record_made(log, step, tl.trans(scores_t), QK)
            # [P from lse] (BLOCK_N, BLOCK_M)
            lse = load_lse(lse_ptr + rows, offs_m, band, FIXED)
            p_t = tl.exp2(scores_t * scale_log2 - lse[None, :])
            record_made(log, step, tl.trans(p_t), P)
            # [mask]
            p_t = mask_transposed(p_t, q_tile, offs_n, band, FIXED)
            record_made(log, step, tl.trans(p_t), MASKED_TILE)
            # [dV] (BLOCK_N, BLOCK_D) += (BLOCK_N, BLOCK_M) @ (BLOCK_M, BLOCK_D)
            dv = matmul(to_operand(p_t, FIXED.DTYPE), do, dv, FIXED)
            # [dP] (BLOCK_N, BLOCK_M) = (BLOCK_N, BLOCK_D) @ (BLOCK_D, BLOCK_M)
            dp_t = matmul(v, tl.trans(do), tl.zeros((BLOCK_N, BLOCK_M), tl.float32), FIXED)
            record_made(log, step, tl.trans(dp_t), DP)
            # [dS]
            delta = load_rows(delta_ptr + rows, offs_m, band.q_len, 0.0)
            ds_t = to_operand(p_t * (dp_t - delta[None, :]) * scale, FIXED.DTYPE)
            record_made(log, step, tl.trans(ds_t), DS)
            # [dK] (BLOCK_N, BLOCK_D) += (BLOCK_N, BLOCK_M) @ (BLOCK_M, BLOCK_D)
            dk = matmul(ds_t, q, dk, FIXED)
            # [load dQ] (BLOCK_M, BLOCK_D)
            dq = load_tile(dq_view, q_tile, BLOCK_M, FIXED)
            # [dQ] (BLOCK_M, BLOCK_D) += (BLOCK_M, BLOCK_N) @ (BLOCK_N, BLOCK_D)
            dq = matmul(tl.trans(ds_t), k, dq, FIXED)
            # [store dQ]
            store_tile(dq_view, dq, q_tile, tl.float32, FIXED)
            # [end]
            tl.debug_barrier()  # the next key tile's load of dQ must see this store
            record_query_step(log, step, batch_head, q_tile, kv_tile, band, dq, FIXED)
            record_step(log, step, kv_tile, band.kv_len, q, k, v, do, lse, delta, p_t, dk, dv)
        # [store dK, dV]
        store_tile(dk_view, dk, kv_tile, FIXED.DTYPE, FIXED)
        store_tile(dv_view, dv, kv_tile, FIXED.DTYPE, FIXED)
        # [end]
        last_step = tl.maximum(group_size * q_tiles - 1, 0)
        record_stored(log, last_step, (KV_WRITES_DK, KV_WRITES_DV), kv_tile, band.kv_len, BLOCK_N, FIXED)
