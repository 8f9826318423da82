"""dQ: a query tile stays, the key tiles are streamed past it.

Dao 2023, algorithm 2, with the loop over key tiles inside. P is recomputed from lse.
"""

from __future__ import annotations

from kernels.algorithms.backward.entry import DQ
from kernels.algorithms.backward.lanes import QUERY_PROGRAM
from kernels.algorithms.backward.recording import AFTER_MASK, DP, DS, QK, P, record_tiles
from kernels.primitives.marks import RECORD, lane_of, mark, mark_numbers, mark_program, mark_tile
from kernels.primitives.masking import load_lse, mask_scores
from kernels.primitives.numbers import matmul, to_operand
from kernels.primitives.recorder import (
    read_columns,
    record_acc,
    record_bytes,
    record_end,
    record_matrix,
    record_rows,
    record_start,
    record_where,
    write_columns,
)
from kernels.primitives.tile_io import load_rows, load_tile, row_bytes, store_tile, tile_bytes, tile_view
from kernels.primitives.traversal import last_tiles_first, part_of_tiles, visited_by_query_tile

import triton
import triton.language as tl

READ_K, READ_V, READ_Q, READ_DO, READ_LSE, READ_D = read_columns(DQ, "K", "V", "Q", "dO", "lse", "D")
(WRITE_DQ,) = write_columns(DQ, "dQ")
START, HAS_K, HAS_S, HAS_P, HAS_V, HAS_DP, HAS_DS, HAS_DQ, WROTE = mark_numbers(
    QUERY_PROGRAM, "start", "has K", "has S", "has P", "has V", "has dP", "has dS", "has dQ", "wrote"
)


@triton.jit
def _attn_bwd_dq_inner(
    dq,
    q,
    do,
    lse,
    delta,
    k_view,
    v_view,
    first_tile,
    end_tile,
    batch_head,
    q_tile,
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
    """Key tiles [first_tile, end_tile) add to dq (BLOCK_M, BLOCK_D), float32, which lacks the scale."""
    offs_m = q_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    for kv_tile in tl.range(first_tile, end_tile):
        first_k = kv_tile * BLOCK_N
        if TRACE:
            record_start(trace, slot)
        if LANES:
            mark(lane, kv_tile, START)
        # [load K] (BLOCK_N, BLOCK_D)
        k = load_tile(k_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, USE_TMA)
        if LANES:
            mark(lane, kv_tile, HAS_K)
        # [QK^T] (BLOCK_M, BLOCK_N) = (BLOCK_M, BLOCK_D) @ (BLOCK_D, BLOCK_N)
        scores = matmul(q, tl.trans(k), tl.zeros((BLOCK_M, BLOCK_N), tl.float32), PRECISION)
        if LANES:
            mark(lane, kv_tile, HAS_S)
        if TRACE:
            record_matrix(trace, slot, scores, QK, BLOCK_M, BLOCK_N)
        if MASKED:
            # [mask]
            scores = mask_scores(scores, offs_m, first_k, band, BOUND_LEFT, BOUND_RIGHT, BLOCK_N)
        # [P from lse] (BLOCK_M, BLOCK_N)
        p = tl.exp2(scores * scale_log2 - lse[:, None])
        if LANES:
            mark(lane, kv_tile, HAS_P)
        # [load V] (BLOCK_N, BLOCK_D)
        v = load_tile(v_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, USE_TMA)
        if LANES:
            mark(lane, kv_tile, HAS_V)
        # [dP] (BLOCK_M, BLOCK_N) = (BLOCK_M, BLOCK_D) @ (BLOCK_D, BLOCK_N)
        dp = matmul(do, tl.trans(v), tl.zeros((BLOCK_M, BLOCK_N), tl.float32), PRECISION)
        if LANES:
            mark(lane, kv_tile, HAS_DP)
        # [dS]
        ds = p * (dp - delta[:, None])
        if LANES:
            mark(lane, kv_tile, HAS_DS)
        # [dQ] (BLOCK_M, BLOCK_D) += (BLOCK_M, BLOCK_N) @ (BLOCK_N, BLOCK_D)
        dq = matmul(to_operand(ds, DTYPE), k, dq, PRECISION)
        # [end]
        if LANES:
            mark(lane, kv_tile, HAS_DQ)
            mark_tile(lane, kv_tile, batch_head * tl.cdiv(band.q_len, BLOCK_M) + q_tile, kv_tile)
        if TRACE:
            ITEMSIZE: tl.constexpr = DTYPE.primitive_bitwidth // 8
            record_where(trace, slot, batch_head, q_tile, kv_tile)
            kv_bytes = tile_bytes(first_k, band.kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, ITEMSIZE)
            record_bytes(trace, slot, kv_bytes, READ_K)
            record_bytes(trace, slot, kv_bytes, READ_V)
            offs_n = first_k + tl.arange(0, BLOCK_N)
            share = tl.sum(tl.where((offs_n < band.kv_len)[None, :], p, 0.0), axis=1)
            record_rows(trace, slot, share, 0, BLOCK_M)
            record_matrix(trace, slot, p, P, BLOCK_M, BLOCK_N)
            record_tiles(trace, slot, q, k, v, do, lse, delta, BLOCK_M, BLOCK_N, BLOCK_D)
            record_matrix(trace, slot, scores, AFTER_MASK, BLOCK_M, BLOCK_N)
            record_matrix(trace, slot, dp, DP, BLOCK_M, BLOCK_N)
            record_matrix(trace, slot, ds, DS, BLOCK_M, BLOCK_N)
            if TRACE_ACC:
                record_acc(trace.acc, slot, dq, BLOCK_M, BLOCK_D)
            record_end(trace, slot)
            slot += 1
    return dq, slot


@triton.jit
def _attn_bwd_dq(
    query,
    key,
    value,
    d_out,
    d_query,
    lse_ptr,
    delta_ptr,
    q_strides,
    k_strides,
    v_strides,
    do_strides,
    dq_strides,
    heads_in_turn,
    q_heads,
    group_size,
    band,
    scale,
    scale_log2,
    trace,
    max_steps,
    BOUND_LEFT: tl.constexpr,
    BOUND_RIGHT: tl.constexpr,
    RAGGED: tl.constexpr,
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
    """dQ of one query tile. lse and delta are (batch, q_heads, q_len) and float32."""
    if LANES:
        mark_program(trace, False)
    q_tiles = tl.cdiv(band.q_len, BLOCK_M)
    heads = tl.num_programs(0) // q_tiles
    batch_head, q_tile = last_tiles_first(tl.program_id(0), heads_in_turn, q_tiles, heads)
    batch, head = batch_head // q_heads, batch_head % q_heads
    q_view = tile_view(query, q_strides, batch, head, band.q_len, USE_TMA)
    do_view = tile_view(d_out, do_strides, batch, head, band.q_len, USE_TMA)
    k_view = tile_view(key, k_strides, batch, head // group_size, band.kv_len, USE_TMA)
    v_view = tile_view(value, v_strides, batch, head // group_size, band.kv_len, USE_TMA)
    first_q = q_tile * BLOCK_M
    offs_m = first_q + tl.arange(0, BLOCK_M)
    rows = batch_head.to(tl.int64) * band.q_len
    # [load Q, dO, lse, D] (BLOCK_M, BLOCK_D)
    q = load_tile(q_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, USE_TMA)
    do = load_tile(do_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, USE_TMA)
    lse = load_lse(lse_ptr + rows, offs_m, band, BOUND_LEFT, BOUND_RIGHT)
    delta = load_rows(delta_ptr + rows, offs_m, band.q_len, 0.0)
    dq = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    # [end]
    first_slot = (batch_head * q_tiles + q_tile) * max_steps
    slot = first_slot
    if TRACE:
        ITEMSIZE: tl.constexpr = DTYPE.primitive_bitwidth // 8
        q_bytes = tile_bytes(first_q, band.q_len, HEAD_DIM, BLOCK_M, BLOCK_D, ITEMSIZE)
        n_bytes = row_bytes(first_q, band.q_len, BLOCK_M)
        record_where(trace, slot, batch_head, q_tile, -1)
        record_bytes(trace, slot, q_bytes, READ_Q)
        record_bytes(trace, slot, q_bytes, READ_DO)
        record_bytes(trace, slot, n_bytes, READ_LSE)
        record_bytes(trace, slot, n_bytes, READ_D)
        record_rows(trace, slot, delta * 0.0, 0, BLOCK_M)
        if TRACE_ACC:
            record_acc(trace.acc, slot, dq, BLOCK_M, BLOCK_D)

    first, first_full, end_full, end = visited_by_query_tile(q_tile, band, BLOCK_M, BLOCK_N)
    lane = None
    if LANES:
        lane = lane_of(trace, 0) - first * RECORD  # its turns are numbered as the key tiles
    for PART in tl.static_range(3):
        from_tile, to_tile = part_of_tiles(first, first_full, end_full, end, PART)
        if (PART == 0 and BOUND_LEFT) or PART == 1 or (PART == 2 and (BOUND_RIGHT or RAGGED)):
            dq, slot = _attn_bwd_dq_inner(
                dq, q, do, lse, delta, k_view, v_view, from_tile, to_tile, batch_head, q_tile, band,
                scale_log2, trace, slot, lane, PART != 1, BOUND_LEFT, BOUND_RIGHT, DTYPE, HEAD_DIM, BLOCK_M,
                BLOCK_N, BLOCK_D, PRECISION, USE_TMA, TRACE, TRACE_ACC, LANES,
            )  # fmt: skip

    # [store dQ]
    dq_view = tile_view(d_query, dq_strides, batch, head, band.q_len, USE_TMA)
    store_tile(dq_view, dq * scale, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, DTYPE, USE_TMA)
    # [end]
    if LANES:
        mark(lane, tl.maximum(end - 1, first), WROTE)
        mark_program(trace, True)
    if TRACE:
        slot = tl.maximum(slot - 1, first_slot)
        record_bytes(trace, slot, q_bytes, WRITE_DQ)
