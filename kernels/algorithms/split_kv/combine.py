"""Split-KV decoding, second kernel: combines the partial results of the parts of the keys.

Dao et al. 2023 (flash-decoding). The weight of a part is exp(lse of the part - lse); lse is the log-sum-exp
of the parts' lse.
"""

from kernels.algorithms.split_kv.recording import record_output, record_part
from kernels.algorithms.split_kv.split import packed_pointers
from kernels.primitives.masking import sees_a_key
from kernels.primitives.numbers import to_memory
from kernels.primitives.online_softmax import finite_or_zero, share_of
from kernels.primitives.recorder import Log, record_turn
from kernels.primitives.tile_io import store_rows

import triton
import triton.language as tl


@triton.jit(do_not_specialize=("kv_heads",))
def _attn_combine(
    partial_o_ptr, partial_lse_ptr, out, lse_ptr, strides, kv_heads, group_size, band, splits, trace,
    FIXED: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Combine the parts of one tile of packed rows."""
    BLOCK_M: tl.constexpr = FIXED.BLOCK_M
    BLOCK_D: tl.constexpr = FIXED.BLOCK_D
    batch_kv_head, row_tile = tl.program_id(0), tl.program_id(1)
    n_rows = group_size * band.q_len
    rows = row_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    offs_s = tl.arange(0, BLOCK_S)
    inside = (rows < n_rows)[:, None] & (offs_d < FIXED.HEAD_DIM)[None, :]
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
    log = Log(
        trace.where if FIXED.TRACE else None,
        trace,
        (row_tile * tl.num_programs(0) + batch_kv_head) * splits,
        None,
    )
    # Few programs run, so each one must load several parts at the same time to use the memory.
    for split in tl.range(0, splits, loop_unroll_factor=8):
        record_turn(log, split)
        partial = first + split * n_rows + rows
        # [load partial O] (BLOCK_M, BLOCK_D)
        o = tl.load(
            partial_o_ptr + partial[:, None] * FIXED.HEAD_DIM + offs_d[None, :], mask=inside, other=0.0
        )
        # [weigh]
        part = tl.load(partial_lse_ptr + partial, mask=rows < n_rows, other=float("-inf"))
        weight = share_of(part, lse)
        acc += weight[:, None] * o
        # [end]
        record_part(log, split, splits, batch_kv_head, row_tile, n_rows, part, lse, weight, o, acc, FIXED)
    # [store O, lse]
    # A row that sees keys, all with a score of -inf, is 0 / 0. A row that sees no key is 0.
    undefined = (largest == float("-inf")) & sees_a_key(rows % band.q_len, band)
    acc = tl.where(undefined[:, None], float("nan"), acc)
    batch, kv_head = batch_kv_head // kv_heads, batch_kv_head % kv_heads
    target = packed_pointers(out, strides.o, batch, kv_head, group_size, band.q_len, rows, offs_d)
    tl.store(target, to_memory(acc, FIXED.DTYPE), mask=inside)
    store_rows(lse_ptr + batch_kv_head.to(tl.int64) * n_rows, rows, n_rows, lse)
    # [end]
    record_output(log, splits - 1, row_tile, n_rows, FIXED)
