"""D = rowsum(O * dO), one number per row, before the gradients. Dao 2023, algorithm 2, line 4."""

from __future__ import annotations

from kernels.algorithms.backward.entry import PREPROCESS
from kernels.primitives.recorder import (
    read_columns,
    record_bytes,
    record_end,
    record_start,
    record_where,
    write_columns,
)
from kernels.primitives.tile_io import load_rows, load_tile, row_bytes, store_rows, tile_bytes, tile_view

import triton
import triton.language as tl

READ_O, READ_DO = read_columns(PREPROCESS, "O", "dO")
(WRITE_D,) = write_columns(PREPROCESS, "D")


@triton.jit
def _attn_bwd_preprocess(
    out,
    d_out,
    d_lse_ptr,
    delta_ptr,
    o_strides,
    do_strides,
    q_heads,
    q_len,
    trace,
    DTYPE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_D: tl.constexpr,
    HAS_D_LSE: tl.constexpr,
    TRACE: tl.constexpr,
):
    """D of one query tile, less the gradient of lse: delta (batch, q_heads, q_len) float32."""
    q_tile, batch_head = tl.program_id(0), tl.program_id(1)
    batch, head = batch_head // q_heads, batch_head % q_heads
    o_view = tile_view(out, o_strides, batch, head, q_len, False)
    do_view = tile_view(d_out, do_strides, batch, head, q_len, False)
    first_q = q_tile * BLOCK_M
    offs_m = first_q + tl.arange(0, BLOCK_M)
    rows = batch_head.to(tl.int64) * q_len
    slot = batch_head * tl.num_programs(0) + q_tile
    if TRACE:
        record_start(trace, slot)
    # [load O, dO] (BLOCK_M, BLOCK_D)
    o = load_tile(o_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, False).to(tl.float32)
    do = load_tile(do_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, False).to(tl.float32)
    # [D]
    delta = tl.sum(o * do, axis=1)
    if HAS_D_LSE:  # lse enters dS as P does not: dS = P * (dP - D + d_lse)
        delta -= load_rows(d_lse_ptr + rows, offs_m, q_len, 0.0)
    # [store D]
    store_rows(delta_ptr + rows, offs_m, q_len, delta)
    # [end]
    if TRACE:
        ITEMSIZE: tl.constexpr = DTYPE.primitive_bitwidth // 8
        record_where(trace, slot, batch_head, q_tile, -1)
        q_bytes = tile_bytes(first_q, q_len, HEAD_DIM, BLOCK_M, BLOCK_D, ITEMSIZE)
        record_bytes(trace, slot, q_bytes, READ_O)
        record_bytes(trace, slot, q_bytes, READ_DO)
        record_bytes(trace, slot, row_bytes(first_q, q_len, BLOCK_M), WRITE_D)
        record_end(trace, slot)
