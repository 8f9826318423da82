"""Before and after the sweep, in plain Triton: lse and D as it reads them, and dQ out of its float32 sum."""

from __future__ import annotations

from kernels.primitives.numbers import LOG2E
from kernels.primitives.tile_io import load_rows, load_tile, store_tile, tile_view

import triton
import triton.language as tl


@triton.jit
def _attn_bwd_hopper_prepare(
    out,
    d_out,
    lse_ptr,
    d_lse_ptr,
    padded_lse_ptr,
    padded_delta_ptr,
    dq_sum_ptr,
    o_strides,
    do_strides,
    q_heads,
    q_len,
    padded_rows,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_D: tl.constexpr,
    HAS_D_LSE: tl.constexpr,
):
    """lse in base 2, D = rowsum(O * dO) - d_lse, and zeros for dQ if it is summed up in device memory.

    Each has padded_rows rows per head.

    lse is +inf for rows that see no key or do not exist, so that their P is 0.
    """
    q_tile, batch_head = tl.program_id(0), tl.program_id(1)
    batch, head = batch_head // q_heads, batch_head % q_heads
    o_view = tile_view(out, o_strides, batch, head, q_len, False)
    do_view = tile_view(d_out, do_strides, batch, head, q_len, False)
    first_q = q_tile * BLOCK_M
    offs_m = first_q + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    rows = batch_head.to(tl.int64) * q_len
    padded = batch_head.to(tl.int64) * padded_rows + offs_m
    o = load_tile(o_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, False).to(tl.float32)
    do = load_tile(do_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, False).to(tl.float32)
    delta = tl.sum(o * do, axis=1)
    if HAS_D_LSE:
        delta -= load_rows(d_lse_ptr + rows, offs_m, q_len, 0.0)
    lse = load_rows(lse_ptr + rows, offs_m, q_len, float("inf"))
    lse = tl.where(lse == float("-inf"), float("inf"), lse * LOG2E)
    tl.store(padded_lse_ptr + padded, lse)
    tl.store(padded_delta_ptr + padded, delta)
    if dq_sum_ptr is not None:
        zeros = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
        tl.store(dq_sum_ptr + padded[:, None] * HEAD_DIM + offs_d[None, :], zeros, offs_d[None, :] < HEAD_DIM)


@triton.jit
def _attn_bwd_hopper_finish(
    dq_sum_ptr,
    d_query,
    dq_strides,
    q_heads,
    q_len,
    padded_rows,
    scale,
    DTYPE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """dQ of one query tile: its sum, times the scale."""
    q_tile, batch_head = tl.program_id(0), tl.program_id(1)
    batch, head = batch_head // q_heads, batch_head % q_heads
    first_q = q_tile * BLOCK_M
    offs_d = tl.arange(0, BLOCK_D)
    padded = batch_head.to(tl.int64) * padded_rows + first_q + tl.arange(0, BLOCK_M)
    at = dq_sum_ptr + padded[:, None] * HEAD_DIM + offs_d[None, :]
    dq = tl.load(at, offs_d[None, :] < HEAD_DIM, 0.0) * scale
    dq_view = tile_view(d_query, dq_strides, batch, head, q_len, False)
    store_tile(dq_view, dq, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, DTYPE, False)
