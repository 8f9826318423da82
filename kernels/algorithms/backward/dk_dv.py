"""dK and dV: a key tile stays, the query tiles of all its query heads are streamed past it.

Dao 2023 (FlashAttention-2), algorithm 2; Chu, Liu and Lin 2026, algorithm 8. P is recomputed from lse. The products are written so that
every accumulator is used as it stands: S^T = K Q^T gives dV += P^T dO without transposing P. `# [name]` marks phases.
"""

from __future__ import annotations

from kernels.primitives.recorder import (
    record_acc,
    record_bytes,
    record_end,
    record_rows,
    record_start,
    record_where,
)
from kernels.primitives.softmax import (
    load_lse,
    load_rows,
    load_tile,
    mask_transposed,
    matmul,
    pure,
    store_tile,
    tile_bytes,
    tile_view,
    to_operand,
)
from kernels.problem import tiles

import triton
import triton.language as tl

REQUESTS = (
    ("K", "read"),
    ("V", "read"),
    ("Q", "read"),
    ("dO", "read"),
    ("lse", "read"),
    ("D", "read"),
    ("dK", "write"),
    ("dV", "write"),
)
READ_K, READ_V, READ_Q, READ_DO, READ_LSE, READ_D, WRITE_DK, WRITE_DV = (
    tl.constexpr(column) for column in range(len(REQUESTS))
)

first_visiting_tile = pure(tiles.first_visiting_tile)
end_visiting_tile = pure(tiles.end_visiting_tile)
first_full_visiting_tile = pure(tiles.first_full_visiting_tile)
end_full_visiting_tile = pure(tiles.end_full_visiting_tile)


@triton.jit
def _attn_bwd_dk_dv_inner(
    dk, dv, k, v, q_view, do_view, lse_ptr, delta_ptr, first_tile, end_tile, batch_head, kv_tile,
    q_len, kv_len, left, right, scale_log2, trace, slot,
    MASKED: tl.constexpr, BOUND_LEFT: tl.constexpr, BOUND_RIGHT: tl.constexpr, DTYPE: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr, USE_TMA: tl.constexpr,
    TRACE: tl.constexpr, TRACE_ACC: tl.constexpr,
):  # fmt: skip
    """Query tiles [first_tile, end_tile) add to dk and dv (BLOCK_N, BLOCK_D), float32; dk lacks the scale."""
    offs_n = kv_tile * BLOCK_N + tl.arange(0, BLOCK_N)
    for q_tile in tl.range(first_tile, end_tile):
        first_q = q_tile * BLOCK_M
        offs_m = first_q + tl.arange(0, BLOCK_M)
        if TRACE:
            record_start(trace, slot)
        # [load Q] (BLOCK_M, BLOCK_D)
        q = load_tile(q_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, USE_TMA)
        # [QK^T] (BLOCK_N, BLOCK_M) = (BLOCK_N, BLOCK_D) @ (BLOCK_D, BLOCK_M)
        scores_t = matmul(k, tl.trans(q), tl.zeros((BLOCK_N, BLOCK_M), tl.float32), PRECISION)
        # [P from lse] (BLOCK_N, BLOCK_M)
        lse = load_lse(lse_ptr, offs_m, q_len, kv_len, left, right, BOUND_LEFT, BOUND_RIGHT)
        p_t = tl.exp2(scores_t * scale_log2 - lse[None, :])
        if MASKED:
            # [mask]
            p_t = mask_transposed(p_t, offs_m, offs_n, q_len, kv_len, left, right, BOUND_LEFT, BOUND_RIGHT)
        # [load dO] (BLOCK_M, BLOCK_D)
        do = load_tile(do_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, USE_TMA)
        # [dV] (BLOCK_N, BLOCK_D) += (BLOCK_N, BLOCK_M) @ (BLOCK_M, BLOCK_D)
        dv = matmul(to_operand(p_t, DTYPE), do, dv, PRECISION)
        # [dP] (BLOCK_N, BLOCK_M) = (BLOCK_N, BLOCK_D) @ (BLOCK_D, BLOCK_M)
        dp_t = matmul(v, tl.trans(do), tl.zeros((BLOCK_N, BLOCK_M), tl.float32), PRECISION)
        # [dS]
        delta = load_rows(delta_ptr, offs_m, q_len, 0.0)
        ds_t = p_t * (dp_t - delta[None, :])
        # [dK] (BLOCK_N, BLOCK_D) += (BLOCK_N, BLOCK_M) @ (BLOCK_M, BLOCK_D)
        dk = matmul(to_operand(ds_t, DTYPE), q, dk, PRECISION)
        # [end]
        if TRACE:
            record_where(trace, slot, batch_head, q_tile, kv_tile)
            q_bytes = tile_bytes(first_q, q_len, HEAD_DIM, BLOCK_M, BLOCK_D, DTYPE.primitive_bitwidth // 8)
            row_bytes = tile_bytes(first_q, q_len, 1, BLOCK_M, 1, 4)
            record_bytes(trace, slot, q_bytes, READ_Q)
            record_bytes(trace, slot, q_bytes, READ_DO)
            record_bytes(trace, slot, row_bytes, READ_LSE)
            record_bytes(trace, slot, row_bytes, READ_D)
            record_rows(
                trace, slot, tl.sum(tl.where((offs_n < kv_len)[:, None], p_t, 0.0), axis=0), 0, BLOCK_M
            )
            if TRACE_ACC:
                record_acc(trace.acc, slot, dk, BLOCK_N, BLOCK_D)
                record_acc(trace.acc_2, slot, dv, BLOCK_N, BLOCK_D)
            record_end(trace, slot)
            slot += 1
    return dk, dv, slot


@triton.jit
def _attn_bwd_dk_dv(
    query, key, value, d_out, d_key, d_value, lse_ptr, delta_ptr,
    q_strides, k_strides, v_strides, do_strides, dk_strides, dv_strides,
    kv_heads, group_size, q_len, kv_len, left, right, scale, scale_log2, trace, max_steps,
    BOUND_LEFT: tl.constexpr, BOUND_RIGHT: tl.constexpr, DTYPE: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr, USE_TMA: tl.constexpr,
    TRACE: tl.constexpr, TRACE_ACC: tl.constexpr,
):  # fmt: skip
    """dK and dV of one key tile of one key head: the query tiles of all its query heads are streamed past it."""
    ITEMSIZE: tl.constexpr = DTYPE.primitive_bitwidth // 8
    kv_tile, batch_kv_head = tl.program_id(0), tl.program_id(1)
    batch, kv_head = batch_kv_head // kv_heads, batch_kv_head % kv_heads
    first_k = kv_tile * BLOCK_N
    k_view = tile_view(key, k_strides, batch, kv_head, kv_len, USE_TMA)
    v_view = tile_view(value, v_strides, batch, kv_head, kv_len, USE_TMA)
    # [load K, V] (BLOCK_N, BLOCK_D)
    k = load_tile(k_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, USE_TMA)
    v = load_tile(v_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, USE_TMA)
    dk = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    dv = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    # [end]
    first_slot = (batch_kv_head * tl.num_programs(0) + kv_tile) * max_steps
    slot = first_slot
    if TRACE:
        kv_bytes = tile_bytes(first_k, kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, ITEMSIZE)
        record_where(trace, slot, batch_kv_head * group_size, -1, kv_tile)
        record_bytes(trace, slot, kv_bytes, READ_K)
        record_bytes(trace, slot, kv_bytes, READ_V)
        if TRACE_ACC:
            record_acc(trace.acc, slot, dk, BLOCK_N, BLOCK_D)
            record_acc(trace.acc_2, slot, dv, BLOCK_N, BLOCK_D)

    first = first_visiting_tile(kv_tile, q_len, kv_len, right, BLOCK_M, BLOCK_N)
    end = end_visiting_tile(kv_tile, q_len, kv_len, left, BLOCK_M, BLOCK_N)
    first_full = min(
        max(first_full_visiting_tile(kv_tile, q_len, kv_len, right, BLOCK_M, BLOCK_N), first), end
    )
    end_full = min(
        max(end_full_visiting_tile(kv_tile, q_len, kv_len, left, BLOCK_M, BLOCK_N), first_full), end
    )
    for member in range(group_size):
        head = kv_head * group_size + member
        batch_head = batch * (kv_heads * group_size) + head
        q_view = tile_view(query, q_strides, batch, head, q_len, USE_TMA)
        do_view = tile_view(d_out, do_strides, batch, head, q_len, USE_TMA)
        rows = batch_head.to(tl.int64) * q_len
        for PART in tl.static_range(3):
            # Tiles that the right bound cuts, whole tiles, tiles that the left bound cuts.
            if PART == 0:
                from_tile, to_tile = first, first_full
            elif PART == 1:
                from_tile, to_tile = first_full, end_full
            else:
                from_tile, to_tile = end_full, end
            if (PART == 0 and BOUND_RIGHT) or PART == 1 or (PART == 2 and BOUND_LEFT):
                dk, dv, slot = _attn_bwd_dk_dv_inner(
                    dk, dv, k, v, q_view, do_view, lse_ptr + rows, delta_ptr + rows, from_tile, to_tile, batch_head, kv_tile,
                    q_len, kv_len, left, right, scale_log2, trace, slot,
                    PART != 1, BOUND_LEFT, BOUND_RIGHT, DTYPE, HEAD_DIM, BLOCK_M, BLOCK_N, BLOCK_D, PRECISION, USE_TMA, TRACE, TRACE_ACC,
                )  # fmt: skip

    # [store dK, dV]
    dk_view = tile_view(d_key, dk_strides, batch, kv_head, kv_len, USE_TMA)
    dv_view = tile_view(d_value, dv_strides, batch, kv_head, kv_len, USE_TMA)
    store_tile(dk_view, dk * scale, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, DTYPE, USE_TMA)
    store_tile(dv_view, dv, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, DTYPE, USE_TMA)
    # [end]
    if TRACE:
        slot = tl.maximum(slot - 1, first_slot)
        kv_bytes = tile_bytes(first_k, kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, ITEMSIZE)
        record_bytes(trace, slot, kv_bytes, WRITE_DK)
        record_bytes(trace, slot, kv_bytes, WRITE_DV)
