"""Split-KV decoding, second kernel: combines the partial results of the parts of the keys.

Dao et al. 2023 (flash-decoding). The weight of a part is exp(lse of the part - lse); lse is the log-sum-exp
of the parts' lse.
"""

from __future__ import annotations

from kernels.algorithms.split_kv.entry import COMBINE
from kernels.algorithms.split_kv.packing import packed_pointers
from kernels.primitives.masking import sees_a_key
from kernels.primitives.numbers import to_memory
from kernels.primitives.online_softmax import finite_or_zero
from kernels.primitives.recorder import (
    matrix_numbers,
    read_columns,
    record_bytes,
    record_end,
    record_matrix,
    record_rows,
    record_start,
    record_where,
    write_columns,
)
from kernels.primitives.tile_io import row_bytes, store_rows, tile_bytes

import triton
import triton.language as tl

READ_PARTIAL_O, READ_PARTIAL_LSE = read_columns(COMBINE, "partial O", "partial lse")
WRITE_O, WRITE_LSE = write_columns(COMBINE, "O", "lse")
PARTIAL_LSE, LSE, PARTIAL_O, O = matrix_numbers(COMBINE, "partial lse", "lse", "partial O", "O")


@triton.jit
def _attn_combine(
    partial_o_ptr,
    partial_lse_ptr,
    out,
    lse_ptr,
    o_strides,
    kv_heads,
    group_size,
    band,
    splits,
    trace,
    DTYPE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_S: tl.constexpr,
    TRACE: tl.constexpr,
):
    """Combine the parts of one tile of packed rows."""
    batch_kv_head, row_tile = tl.program_id(0), tl.program_id(1)
    n_rows = group_size * band.q_len
    rows = row_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    offs_s = tl.arange(0, BLOCK_S)
    inside = (rows < n_rows)[:, None] & (offs_d < HEAD_DIM)[None, :]
    first = batch_kv_head.to(tl.int64) * splits * n_rows
    # [load partial lse] (BLOCK_S, BLOCK_M)
    known = (offs_s < splits)[:, None] & (rows < n_rows)[None, :]
    pointers = partial_lse_ptr + first + offs_s[:, None] * n_rows + rows[None, :]
    parts = tl.load(pointers, mask=known, other=float("-inf"))
    # [log-sum-exp]
    largest = tl.max(parts, axis=0)
    shift = finite_or_zero(largest)
    lse = largest + tl.log(tl.sum(tl.exp(parts - shift[None, :]), axis=0))
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    # [end]
    slot = (row_tile * tl.num_programs(0) + batch_kv_head) * splits
    # Few programs run, so each one must load several parts at the same time to use the memory.
    for split in tl.range(0, splits, loop_unroll_factor=8):
        if TRACE:
            record_start(trace, slot)
        partial = first + split * n_rows + rows
        # [load partial O] (BLOCK_M, BLOCK_D)
        o = tl.load(partial_o_ptr + partial[:, None] * HEAD_DIM + offs_d[None, :], mask=inside, other=0.0)
        # [weigh]
        part = tl.load(partial_lse_ptr + partial, mask=rows < n_rows, other=float("-inf"))
        weight = tl.where(part == float("-inf"), 0.0, tl.exp(part - lse))
        acc += weight[:, None] * o
        # [end]
        if TRACE:
            record_matrix(trace, slot, part[:, None], PARTIAL_LSE, BLOCK_M, 1)
            record_matrix(trace, slot, lse[:, None], LSE, BLOCK_M, 1)
            record_matrix(trace, slot, o, PARTIAL_O, BLOCK_M, BLOCK_D)
            record_matrix(trace, slot, acc, O, BLOCK_M, BLOCK_D)
            record_where(trace, slot, batch_kv_head, row_tile, -1)
            o_bytes = tile_bytes(row_tile * BLOCK_M, n_rows, HEAD_DIM, BLOCK_M, BLOCK_D, 4)
            record_bytes(trace, slot, o_bytes, READ_PARTIAL_O)
            n_bytes = row_bytes(row_tile * BLOCK_M, n_rows, BLOCK_M)
            record_bytes(trace, slot, n_bytes + tl.where(split == 0, splits, 0) * n_bytes, READ_PARTIAL_LSE)
            record_rows(trace, slot, weight, 0, BLOCK_M)
            record_end(trace, slot)
            slot += 1
    # [store O, lse]
    # A row that sees keys, all with a score of -inf, is 0 / 0. A row that sees no key is 0.
    undefined = (largest == float("-inf")) & sees_a_key(rows % band.q_len, band)
    acc = tl.where(undefined[:, None], float("nan"), acc)
    batch, kv_head = batch_kv_head // kv_heads, batch_kv_head % kv_heads
    target = packed_pointers(out, o_strides, batch, kv_head, group_size, band.q_len, rows, offs_d)
    tl.store(target, to_memory(acc, DTYPE), mask=inside)
    store_rows(lse_ptr + batch_kv_head.to(tl.int64) * n_rows, rows, n_rows, lse)
    # [end]
    if TRACE:
        ITEMSIZE: tl.constexpr = DTYPE.primitive_bitwidth // 8
        q_bytes = tile_bytes(row_tile * BLOCK_M, n_rows, HEAD_DIM, BLOCK_M, BLOCK_D, ITEMSIZE)
        record_bytes(trace, slot - 1, q_bytes, WRITE_O)
        record_bytes(trace, slot - 1, row_bytes(row_tile * BLOCK_M, n_rows, BLOCK_M), WRITE_LSE)
