"""Split-KV decoding, first kernel: each program attends to one part of the keys and writes a partial result.

Dao et al. 2023 (flash-decoding). For few queries and many keys: with one program per query tile, most of the
GPU would be idle. The query heads that share a key head are packed into one tile, so that K and V are read
once.
"""

from __future__ import annotations

from kernels.algorithms.split_kv.entry import SPLIT
from kernels.algorithms.split_kv.packing import packed_pointers
from kernels.primitives.masking import mask_scores
from kernels.primitives.numbers import LN2, from_memory, matmul, to_operand
from kernels.primitives.online_softmax import online_softmax
from kernels.primitives.recorder import (
    matrix_numbers,
    read_columns,
    record_acc,
    record_bytes,
    record_end,
    record_matrix,
    record_start,
    record_state,
    record_where,
    write_columns,
)
from kernels.primitives.tile_io import load_tile, row_bytes, tile_bytes, tile_view

import triton
import triton.language as tl

READ_Q, READ_K, READ_V = read_columns(SPLIT, "Q", "K", "V")
WRITE_PARTIAL_O, WRITE_PARTIAL_LSE = write_columns(SPLIT, "partial O", "partial lse")
Q, K, QK, S, P, V, RESCALED = matrix_numbers(SPLIT, "Q", "K", "QK^T", "S", "P", "V", "O rescaled")


@triton.jit
def _attn_split_kv(
    query, key, value, partial_o_ptr, partial_lse_ptr, q_strides, k_strides, v_strides, kv_heads,
    group_size, band, first_visited, end_visited, splits, tiles_per_split, scale_log2, trace, max_steps,
    BOUND_LEFT: tl.constexpr, BOUND_RIGHT: tl.constexpr, RAGGED: tl.constexpr, DTYPE: tl.constexpr,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr, USE_TMA: tl.constexpr, TRACE: tl.constexpr, TRACE_ACC: tl.constexpr,
):  # fmt: skip
    """Attend to one part of the keys, for one tile of packed rows of one key head.

    partial_o is (batch, kv_heads, splits, n_rows, head_dim), partial_lse (batch, kv_heads, splits, n_rows),
    both float32; n_rows = group_size * q_len.
    """
    split, batch_kv_head, row_tile = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    batch, kv_head = batch_kv_head // kv_heads, batch_kv_head % kv_heads
    n_rows = group_size * band.q_len
    rows = row_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_m = rows % band.q_len
    offs_d = tl.arange(0, BLOCK_D)
    k_view = tile_view(key, k_strides, batch, kv_head, band.kv_len, USE_TMA)
    v_view = tile_view(value, v_strides, batch, kv_head, band.kv_len, USE_TMA)
    # [load Q] (BLOCK_M, BLOCK_D)
    inside = (rows < n_rows)[:, None] & (offs_d < HEAD_DIM)[None, :]
    pointers = packed_pointers(query, q_strides, batch, kv_head, group_size, band.q_len, rows, offs_d)
    q = from_memory(tl.load(pointers, mask=inside, other=0.0))
    m = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    # [end]
    program = (row_tile * tl.num_programs(1) + batch_kv_head) * splits + split
    first_tile = first_visited + split * tiles_per_split
    end_tile = min(first_tile + tiles_per_split, end_visited)
    slot = program * max_steps
    if TRACE:
        ITEMSIZE: tl.constexpr = DTYPE.primitive_bitwidth // 8
        q_bytes = tile_bytes(row_tile * BLOCK_M, n_rows, HEAD_DIM, BLOCK_M, BLOCK_D, ITEMSIZE)
        record_where(trace, slot, batch_kv_head, row_tile, -1)
        record_bytes(trace, slot, q_bytes, READ_Q)
        record_state(trace, slot, m, l, l + 1, BLOCK_M)
    for kv_tile in tl.range(first_tile, end_tile):
        first_k = kv_tile * BLOCK_N
        if TRACE:
            record_start(trace, slot)
        # [load K] (BLOCK_N, BLOCK_D)
        k = load_tile(k_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, USE_TMA)
        # [QK^T] (BLOCK_M, BLOCK_N) = (BLOCK_M, BLOCK_D) @ (BLOCK_D, BLOCK_N)
        scores = matmul(q, tl.trans(k), tl.zeros((BLOCK_M, BLOCK_N), tl.float32), PRECISION)
        if TRACE:
            record_matrix(trace, slot, q, Q, BLOCK_M, BLOCK_D)
            record_matrix(trace, slot, k, K, BLOCK_N, BLOCK_D)
            record_matrix(trace, slot, scores, QK, BLOCK_M, BLOCK_N)
        if BOUND_LEFT or BOUND_RIGHT or RAGGED:
            # [mask]
            scores = mask_scores(scores, offs_m, first_k, band, BOUND_LEFT, BOUND_RIGHT, BLOCK_N)
            if TRACE:
                record_matrix(trace, slot, scores, S, BLOCK_M, BLOCK_N)
        # [row max]
        p, m, l, alpha = online_softmax(scores, m, l, scale_log2)
        # [rescale]
        acc = acc * alpha[:, None]
        if TRACE:
            record_matrix(trace, slot, p, P, BLOCK_M, BLOCK_N)
            record_matrix(trace, slot, acc, RESCALED, BLOCK_M, BLOCK_D)
        # [load V] (BLOCK_N, BLOCK_D)
        v = load_tile(v_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, USE_TMA)
        # [PV] (BLOCK_M, BLOCK_D) += (BLOCK_M, BLOCK_N) @ (BLOCK_N, BLOCK_D)
        acc = matmul(to_operand(p, DTYPE), v, acc, PRECISION)
        # [end]
        if TRACE:
            record_where(trace, slot, batch_kv_head, row_tile, kv_tile)
            kv_bytes = tile_bytes(first_k, band.kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, ITEMSIZE)
            record_bytes(trace, slot, kv_bytes, READ_K)
            record_bytes(trace, slot, kv_bytes, READ_V)
            record_matrix(trace, slot, v, V, BLOCK_N, BLOCK_D)
            record_state(trace, slot, m, l, alpha, BLOCK_M)
            if TRACE_ACC:
                record_acc(trace.acc, slot, acc, BLOCK_M, BLOCK_D)
            record_end(trace, slot)
            slot += 1
    # [store partial O, lse]
    partial = (batch_kv_head * splits + split).to(tl.int64) * n_rows + rows
    # A part without a visible key has lse -inf and so weight 0 in the result. Its O is 0 instead of 0 / 0.
    o = acc * tl.where(l == 0.0, 0.0, 1.0 / l)[:, None]
    tl.store(partial_o_ptr + partial[:, None] * HEAD_DIM + offs_d[None, :], o, mask=inside)
    tl.store(partial_lse_ptr + partial, m * LN2 + tl.log(l), mask=rows < n_rows)
    # [end]
    if TRACE:
        slot = tl.maximum(slot - 1, program * max_steps)
        o_bytes = tile_bytes(row_tile * BLOCK_M, n_rows, HEAD_DIM, BLOCK_M, BLOCK_D, 4)
        record_bytes(trace, slot, o_bytes, WRITE_PARTIAL_O)
        record_bytes(trace, slot, row_bytes(row_tile * BLOCK_M, n_rows, BLOCK_M), WRITE_PARTIAL_LSE)
