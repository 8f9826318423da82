"""Split-KV decoding, first kernel: each program attends to one part of the keys and writes a partial result.

Dao et al. 2023 (flash-decoding). For few queries and many keys: with one program per query tile, most of the
GPU would be idle. The query heads that share a key head are packed into one tile, so that K and V are read
once.
"""

from kernels.algorithms.flash2.recording import QK, record_output, record_query, record_softmax, record_step
from kernels.algorithms.split_kv.recording import record_page
from kernels.primitives.masking import mask_scores
from kernels.primitives.numbers import LN2, from_memory, matmul, to_operand
from kernels.primitives.online_softmax import online_softmax
from kernels.primitives.recorder import Log, record_made, record_turn
from kernels.primitives.tile_io import load_paged, tile_view

import triton
import triton.language as tl


@triton.jit
def packed_pointers(tensor, strides, batch, kv_head, group_size, q_len, rows, offs_d):
    """(rows, columns) pointers into a (batch, q_heads, q_len, head_dim) tensor.

    Packed row r of a key head is query r % q_len of head r // q_len of the group that shares it.
    """
    heads = kv_head * group_size + rows // q_len
    head_start = tensor + batch.to(tl.int64) * strides[0] + heads.to(tl.int64) * strides[1]
    row_start = head_start + (rows % q_len).to(tl.int64) * strides[2]
    return row_start[:, None] + offs_d[None, :] * strides[3]


@triton.jit(do_not_specialize=("kv_heads",))
def _attn_split_kv(
    query, key, value, partial_o_ptr, partial_lse_ptr, strides, kv_heads, group_size, band, first_visited,
    end_visited, splits, tiles_per_split, table, table_stride, scale_log2, trace, max_steps,
    FIXED: tl.constexpr,
):  # fmt: skip
    """Attend to one part of the keys, for one tile of packed rows of one key head.

    partial_o is (batch, kv_heads, splits, n_rows, head_dim), partial_lse (batch, kv_heads, splits, n_rows),
    both float32; n_rows = group_size * q_len. With a block table, int32 (batch, key tiles), key and value are
    pools of pages (pages, kv_heads, BLOCK_N, head_dim), and it says which page a key tile of a sequence is.
    """
    BLOCK_M: tl.constexpr = FIXED.BLOCK_M
    BLOCK_N: tl.constexpr = FIXED.BLOCK_N
    BLOCK_D: tl.constexpr = FIXED.BLOCK_D
    MASKED: tl.constexpr = FIXED.HAS_PART[0] or FIXED.HAS_PART[2]
    split, batch_kv_head, row_tile = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    batch, kv_head = batch_kv_head // kv_heads, batch_kv_head % kv_heads
    n_rows = group_size * band.q_len
    rows = row_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_m = rows % band.q_len
    offs_d = tl.arange(0, BLOCK_D)
    k_view = tile_view(key, strides.k, batch, kv_head, band.kv_len, FIXED)
    v_view = tile_view(value, strides.v, batch, kv_head, band.kv_len, FIXED)
    # [load Q] (BLOCK_M, BLOCK_D)
    inside = (rows < n_rows)[:, None] & (offs_d < FIXED.HEAD_DIM)[None, :]
    pointers = packed_pointers(query, strides.q, batch, kv_head, group_size, band.q_len, rows, offs_d)
    q = from_memory(tl.load(pointers, mask=inside, other=0.0))
    m = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    # [end]
    program = (row_tile * tl.num_programs(1) + batch_kv_head) * splits + split
    first_tile = first_visited + split * tiles_per_split
    end_tile = min(first_tile + tiles_per_split, end_visited)
    log = Log(trace.where if FIXED.TRACE else None, trace, program * max_steps - first_tile, None)
    record_query(log, first_tile, batch_kv_head, row_tile, n_rows, m, l, None, FIXED)
    for kv_tile in tl.range(first_tile, end_tile):
        record_turn(log, kv_tile)
        page = None
        if table is not None:
            # [load table]
            page = tl.load(table + batch.to(tl.int64) * table_stride + kv_tile)
        record_page(log, kv_tile, page)
        # [load K] (BLOCK_N, BLOCK_D)
        k = load_paged(k_view, page, strides.k, kv_tile, BLOCK_N, FIXED)
        # [QK^T] (BLOCK_M, BLOCK_N) = (BLOCK_M, BLOCK_D) @ (BLOCK_D, BLOCK_N)
        scores = matmul(q, tl.trans(k), tl.zeros((BLOCK_M, BLOCK_N), tl.float32), FIXED)
        record_made(log, kv_tile, scores, QK)
        if MASKED:
            # [mask]
            scores = mask_scores(scores, offs_m, kv_tile, band, FIXED)
        # [row max]
        p, m, l, alpha = online_softmax(scores, m, l, scale_log2)
        # [rescale]
        acc = acc * alpha[:, None]
        record_softmax(log, kv_tile, scores, p, acc, MASKED)
        # [load V] (BLOCK_N, BLOCK_D)
        v = load_paged(v_view, page, strides.v, kv_tile, BLOCK_N, FIXED)
        # [PV] (BLOCK_M, BLOCK_D) += (BLOCK_M, BLOCK_N) @ (BLOCK_N, BLOCK_D)
        acc = matmul(to_operand(p, FIXED.DTYPE), v, acc, FIXED)
        # [end]
        record_step(log, kv_tile, kv_tile, batch_kv_head, row_tile, band, q, k, v, m, l, alpha, acc, FIXED)
    # [store partial O, lse]
    partial = (batch_kv_head * splits + split).to(tl.int64) * n_rows + rows
    # A part without a visible key has lse -inf and so weight 0 in the result. Its O is 0 instead of 0 / 0.
    o = acc * tl.where(l == 0.0, 0.0, 1.0 / l)[:, None]
    tl.store(partial_o_ptr + partial[:, None] * FIXED.HEAD_DIM + offs_d[None, :], o, mask=inside)
    tl.store(partial_lse_ptr + partial, m * LN2 + tl.log(l), mask=rows < n_rows)
    # [end]
    record_output(log, tl.maximum(end_tile - 1, first_tile), row_tile, n_rows, 4, FIXED)
