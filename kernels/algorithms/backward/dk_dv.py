"""dK and dV: a key tile stays, the query tiles of all its query heads are streamed past it.

Dao 2023, algorithm 2; Chu, Liu and Lin 2026, algorithm 8. P is recomputed from lse. The products are written
so that every accumulator is used as it stands: S^T = K Q^T gives dV += P^T dO without transposing P.
"""

from __future__ import annotations

from kernels.algorithms.backward.entry import DK_DV
from kernels.algorithms.backward.lanes import KEY_PROGRAM
from kernels.algorithms.backward.recording import record_after_mask, record_before_mask, record_tiles
from kernels.primitives.marks import RECORD, lane_of, mark, mark_numbers, mark_program, mark_tile
from kernels.primitives.masking import load_lse, mask_transposed
from kernels.primitives.numbers import matmul, to_operand
from kernels.primitives.recorder import (
    read_columns,
    record_acc,
    record_bytes,
    record_end,
    record_rows,
    record_start,
    record_where,
    write_columns,
)
from kernels.primitives.tile_io import load_rows, load_tile, row_bytes, store_tile, tile_bytes, tile_view
from kernels.primitives.traversal import part_of_tiles, visiting_key_tile

import triton
import triton.language as tl

READ_K, READ_V, READ_Q, READ_DO, READ_LSE, READ_D = read_columns(DK_DV, "K", "V", "Q", "dO", "lse", "D")
WRITE_DK, WRITE_DV = write_columns(DK_DV, "dK", "dV")
START, HAS_Q, HAS_S, HAS_P, HAS_DO, HAS_DV, HAS_DP, HAS_DS, HAS_DK, WROTE = mark_numbers(
    KEY_PROGRAM,
    *("start", "has Q", "has S", "has P", "has dO", "has dV", "has dP", "has dS", "has dK", "wrote"),
)


@triton.jit
def _attn_bwd_dk_dv_inner(
    dk,
    dv,
    k,
    v,
    q_view,
    do_view,
    lse_ptr,
    delta_ptr,
    first_tile,
    end_tile,
    batch_head,
    kv_tile,
    band,
    scale_log2,
    trace,
    slot,
    lane,
    MASKED: tl.constexpr,
    BOUND_LEFT: tl.constexpr,
    BOUND_RIGHT: tl.constexpr,
    DTYPE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr,
    USE_TMA: tl.constexpr,
    TRACE: tl.constexpr,
    TRACE_ACC: tl.constexpr,
    LANES: tl.constexpr,
):
    """Query tiles [first_tile, end_tile) add to dk and dv (BLOCK_N, BLOCK_D), float32; dk lacks the scale."""
    offs_n = kv_tile * BLOCK_N + tl.arange(0, BLOCK_N)
    for q_tile in tl.range(first_tile, end_tile):
        first_q = q_tile * BLOCK_M
        offs_m = first_q + tl.arange(0, BLOCK_M)
        if TRACE:
            record_start(trace, slot)
        if LANES:
            mark(lane, q_tile, START)
        # [load Q] (BLOCK_M, BLOCK_D)
        q = load_tile(q_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, USE_TMA)
        if LANES:
            mark(lane, q_tile, HAS_Q)
        # [QK^T] (BLOCK_N, BLOCK_M) = (BLOCK_N, BLOCK_D) @ (BLOCK_D, BLOCK_M)
        scores_t = matmul(k, tl.trans(q), tl.zeros((BLOCK_N, BLOCK_M), tl.float32), PRECISION)
        if LANES:
            mark(lane, q_tile, HAS_S)
        # [P from lse] (BLOCK_N, BLOCK_M)
        lse = load_lse(lse_ptr, offs_m, band, BOUND_LEFT, BOUND_RIGHT)
        p_t = tl.exp2(scores_t * scale_log2 - lse[None, :])
        if TRACE:
            record_before_mask(trace, slot, scores_t, p_t, BLOCK_M, BLOCK_N)
        if MASKED:
            # [mask]
            p_t = mask_transposed(p_t, offs_m, offs_n, band, BOUND_LEFT, BOUND_RIGHT)
        if LANES:
            mark(lane, q_tile, HAS_P)
        # [load dO] (BLOCK_M, BLOCK_D)
        do = load_tile(do_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, USE_TMA)
        if LANES:
            mark(lane, q_tile, HAS_DO)
        # [dV] (BLOCK_N, BLOCK_D) += (BLOCK_N, BLOCK_M) @ (BLOCK_M, BLOCK_D)
        dv = matmul(to_operand(p_t, DTYPE), do, dv, PRECISION)
        if LANES:
            mark(lane, q_tile, HAS_DV)
        # [dP] (BLOCK_N, BLOCK_M) = (BLOCK_N, BLOCK_D) @ (BLOCK_D, BLOCK_M)
        dp_t = matmul(v, tl.trans(do), tl.zeros((BLOCK_N, BLOCK_M), tl.float32), PRECISION)
        if LANES:
            mark(lane, q_tile, HAS_DP)
        # [dS]
        delta = load_rows(delta_ptr, offs_m, band.q_len, 0.0)
        ds_t = p_t * (dp_t - delta[None, :])
        if LANES:
            mark(lane, q_tile, HAS_DS)
        # [dK] (BLOCK_N, BLOCK_D) += (BLOCK_N, BLOCK_M) @ (BLOCK_M, BLOCK_D)
        dk = matmul(to_operand(ds_t, DTYPE), q, dk, PRECISION)
        # [end]
        if LANES:
            mark(lane, q_tile, HAS_DK)
            mark_tile(lane, q_tile, batch_head * tl.cdiv(band.q_len, BLOCK_M) + q_tile, kv_tile)
        if TRACE:
            ITEMSIZE: tl.constexpr = DTYPE.primitive_bitwidth // 8
            record_where(trace, slot, batch_head, q_tile, kv_tile)
            q_bytes = tile_bytes(first_q, band.q_len, HEAD_DIM, BLOCK_M, BLOCK_D, ITEMSIZE)
            n_bytes = row_bytes(first_q, band.q_len, BLOCK_M)
            record_bytes(trace, slot, q_bytes, READ_Q)
            record_bytes(trace, slot, q_bytes, READ_DO)
            record_bytes(trace, slot, n_bytes, READ_LSE)
            record_bytes(trace, slot, n_bytes, READ_D)
            share = tl.sum(tl.where((offs_n < band.kv_len)[:, None], p_t, 0.0), axis=0)
            record_rows(trace, slot, share, 0, BLOCK_M)
            record_tiles(trace, slot, q, k, v, do, lse, delta, BLOCK_M, BLOCK_N, BLOCK_D)
            record_after_mask(trace, slot, p_t, dp_t, ds_t, BLOCK_M, BLOCK_N)
            if TRACE_ACC:
                record_acc(trace.acc, slot, dk, BLOCK_N, BLOCK_D)
                record_acc(trace.acc_2, slot, dv, BLOCK_N, BLOCK_D)
            record_end(trace, slot)
            slot += 1
    return dk, dv, slot


@triton.jit
def _attn_bwd_dk_dv(
    query,
    key,
    value,
    d_out,
    d_key,
    d_value,
    lse_ptr,
    delta_ptr,
    q_strides,
    k_strides,
    v_strides,
    do_strides,
    dk_strides,
    dv_strides,
    kv_heads,
    group_size,
    band,
    scale,
    scale_log2,
    trace,
    max_steps,
    BOUND_LEFT: tl.constexpr,
    BOUND_RIGHT: tl.constexpr,
    DTYPE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr,
    USE_TMA: tl.constexpr,
    TRACE: tl.constexpr,
    TRACE_ACC: tl.constexpr,
    LANES: tl.constexpr,
):
    """dK and dV of one key tile of one key head. lse and delta are (batch, q_heads, q_len) and float32."""
    if LANES:
        mark_program(trace, False)
    kv_tile, batch_kv_head = tl.program_id(0), tl.program_id(1)
    batch, kv_head = batch_kv_head // kv_heads, batch_kv_head % kv_heads
    first_k = kv_tile * BLOCK_N
    k_view = tile_view(key, k_strides, batch, kv_head, band.kv_len, USE_TMA)
    v_view = tile_view(value, v_strides, batch, kv_head, band.kv_len, USE_TMA)
    # [load K, V] (BLOCK_N, BLOCK_D)
    k = load_tile(k_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, USE_TMA)
    v = load_tile(v_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, USE_TMA)
    dk = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    dv = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    # [end]
    first_slot = (batch_kv_head * tl.num_programs(0) + kv_tile) * max_steps
    slot = first_slot
    if TRACE:
        ITEMSIZE: tl.constexpr = DTYPE.primitive_bitwidth // 8
        kv_bytes = tile_bytes(first_k, band.kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, ITEMSIZE)
        record_where(trace, slot, batch_kv_head * group_size, -1, kv_tile)
        record_bytes(trace, slot, kv_bytes, READ_K)
        record_bytes(trace, slot, kv_bytes, READ_V)
        if TRACE_ACC:
            record_acc(trace.acc, slot, dk, BLOCK_N, BLOCK_D)
            record_acc(trace.acc_2, slot, dv, BLOCK_N, BLOCK_D)

    first, first_full, end_full, end = visiting_key_tile(kv_tile, band, BLOCK_M, BLOCK_N)
    for member in range(group_size):
        head = kv_head * group_size + member
        batch_head = batch * (kv_heads * group_size) + head
        q_view = tile_view(query, q_strides, batch, head, band.q_len, USE_TMA)
        do_view = tile_view(d_out, do_strides, batch, head, band.q_len, USE_TMA)
        rows = batch_head.to(tl.int64) * band.q_len
        lane = None
        if LANES:  # the turns of a head are numbered as its query tiles
            lane = lane_of(trace, 0) + (member * (end - first) - first) * RECORD
        for PART in tl.static_range(3):
            # Tiles that the right bound cuts, whole tiles, tiles that the left bound cuts.
            from_tile, to_tile = part_of_tiles(first, first_full, end_full, end, PART)
            if (PART == 0 and BOUND_RIGHT) or PART == 1 or (PART == 2 and BOUND_LEFT):
                dk, dv, slot = _attn_bwd_dk_dv_inner(
                    dk, dv, k, v, q_view, do_view, lse_ptr + rows, delta_ptr + rows, from_tile, to_tile,
                    batch_head, kv_tile, band, scale_log2, trace, slot, lane, PART != 1, BOUND_LEFT,
                    BOUND_RIGHT, DTYPE, HEAD_DIM, BLOCK_M, BLOCK_N, BLOCK_D, PRECISION, USE_TMA, TRACE,
                    TRACE_ACC, LANES,
                )  # fmt: skip

    # [store dK, dV]
    dk_view = tile_view(d_key, dk_strides, batch, kv_head, band.kv_len, USE_TMA)
    dv_view = tile_view(d_value, dv_strides, batch, kv_head, band.kv_len, USE_TMA)
    store_tile(dk_view, dk * scale, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, DTYPE, USE_TMA)
    store_tile(dv_view, dv, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, DTYPE, USE_TMA)
    # [end]
    if LANES:
        mark(lane_of(trace, 0), tl.maximum(group_size * (end - first) - 1, 0), WROTE)
        mark_program(trace, True)
    if TRACE:
        slot = tl.maximum(slot - 1, first_slot)
        record_bytes(trace, slot, kv_bytes, WRITE_DK)
        record_bytes(trace, slot, kv_bytes, WRITE_DV)
