"""The row kernels, in plain Triton: lse and D as Hopper kernels read them, and dQ out of its float32 sum."""

from kernels.algorithms.flash3_backward.entry import FINISH, PREPARE
from kernels.primitives.numbers import LOG2E
from kernels.primitives.recorder import (
    columns_of,
    record_bytes,
    record_end,
    record_start,
    record_where,
)
from kernels.primitives.tile_io import load_rows, load_tile, row_bytes, store_tile, tile_bytes, tile_view

import triton
import triton.language as tl

READ_O, READ_DO, READ_LSE = columns_of(PREPARE, "read", "O", "dO", "lse")
WRITE_LSE, WRITE_D, WRITE_SUM = columns_of(PREPARE, "write", "lse", "D", "dQ")
(READ_SUM,) = columns_of(FINISH, "read", "dQ")
(WRITE_DQ,) = columns_of(FINISH, "write", "dQ")


@triton.jit
def place_in_sum(rows, columns):
    """Place of an element in the sum of dQ, whose blocks of 64 x 64 lie one after the other.

    A block has the order of a wgmma accumulator. Four consecutive numbers belong to one thread: columns c and
    c + 1 of the rows r and r + 8. The fours of a warp lie beside each other. So a warpgroup adds to the sum
    straight from its registers.
    """
    thread = (rows // 16) * 32 + (rows % 8) * 4 + (columns % 8) // 2
    of_thread = (rows // 8 % 2) * 2 + columns % 2
    return (columns // 64) * 4096 + (columns % 64 // 8) * 512 + thread * 4 + of_thread


@triton.jit(do_not_specialize=("q_heads", "q_len"))
def _attn_bwd_hopper_prepare(
    out, d_out, lse_ptr, d_lse_ptr, padded_lse_ptr, padded_delta_ptr, dq_sum_ptr, strides, q_heads,
    q_len, padded_rows, trace, FIXED: tl.constexpr,
):  # fmt: skip
    """lse in base 2, D = rowsum(O * dO) - d_lse, and zeros for dQ if it is summed up in device memory.

    Each has padded_rows rows per head.

    lse is +inf for rows that see no key or do not exist, so that their P is 0.
    """
    BLOCK_M: tl.constexpr = FIXED.BLOCK_M
    BLOCK_D: tl.constexpr = FIXED.BLOCK_D
    q_tile, batch_head = tl.program_id(0), tl.program_id(1)
    batch, head = batch_head // q_heads, batch_head % q_heads
    o_view = tile_view(out, strides.o, batch, head, q_len, FIXED)
    do_view = tile_view(d_out, strides.do, batch, head, q_len, FIXED)
    first_q = q_tile * BLOCK_M
    offs_m = first_q + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    rows = batch_head.to(tl.int64) * q_len
    padded = batch_head.to(tl.int64) * padded_rows + offs_m
    slot = batch_head * tl.num_programs(0) + q_tile
    if FIXED.TRACE:
        record_start(trace, slot)
    # [load O, dO, lse] (BLOCK_M, BLOCK_D)
    o = load_tile(o_view, q_tile, BLOCK_M, FIXED).to(tl.float32)
    do = load_tile(do_view, q_tile, BLOCK_M, FIXED).to(tl.float32)
    lse = load_rows(lse_ptr + rows, offs_m, q_len, float("inf"))
    # [D]
    delta = tl.sum(o * do, axis=1)
    if d_lse_ptr is not None:
        delta -= load_rows(d_lse_ptr + rows, offs_m, q_len, 0.0)
    # [lse in base 2]
    lse = tl.where(lse == float("-inf"), float("inf"), lse * LOG2E)
    # [store lse, D]
    tl.store(padded_lse_ptr + padded, lse)
    tl.store(padded_delta_ptr + padded, delta)
    if dq_sum_ptr is not None:
        # [dQ = 0]
        zeros = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
        tl.store(dq_sum_ptr + padded[:, None] * BLOCK_D + offs_d[None, :], zeros)
    # [end]
    if FIXED.TRACE:
        record_where(trace, slot, batch_head, q_tile, -1)
        q_bytes = tile_bytes(q_tile, q_len, BLOCK_M, FIXED.ITEMSIZE, FIXED)
        record_bytes(trace, slot, q_bytes, (READ_O, READ_DO))
        record_bytes(trace, slot, row_bytes(q_tile, q_len, BLOCK_M), (READ_LSE,))
        record_bytes(trace, slot, BLOCK_M * 4, (WRITE_LSE, WRITE_D))
        record_bytes(trace, slot, BLOCK_M * BLOCK_D * 4, (WRITE_SUM,))
        record_end(trace, slot)


@triton.jit(do_not_specialize=("q_heads", "q_len"))
def _attn_bwd_hopper_finish(
    dq_sum_ptr, d_query, strides, q_heads, q_len, padded_rows, scale, trace, FIXED: tl.constexpr
):
    """dQ of one query tile: its sum, times the scale."""
    BLOCK_M: tl.constexpr = FIXED.BLOCK_M
    BLOCK_D: tl.constexpr = FIXED.BLOCK_D
    q_tile, batch_head = tl.program_id(0), tl.program_id(1)
    batch, head = batch_head // q_heads, batch_head % q_heads
    first_q = q_tile * BLOCK_M
    offs_d = tl.arange(0, BLOCK_D)
    part = batch_head.to(tl.int64) * padded_rows + first_q
    at = dq_sum_ptr + part * BLOCK_D + place_in_sum(tl.arange(0, BLOCK_M)[:, None], offs_d[None, :])
    slot = batch_head * tl.num_programs(0) + q_tile
    if FIXED.TRACE:
        record_start(trace, slot)
    # [load dQ] (BLOCK_M, BLOCK_D)
    dq_sum = tl.load(at)
    # [scale]
    dq = dq_sum * scale
    # [store dQ]
    dq_view = tile_view(d_query, strides.dq, batch, head, q_len, FIXED)
    store_tile(dq_view, dq, q_tile, FIXED.DTYPE, FIXED)
    # [end]
    if FIXED.TRACE:
        record_where(trace, slot, batch_head, q_tile, -1)
        record_bytes(trace, slot, BLOCK_M * BLOCK_D * 4, (READ_SUM,))
        q_bytes = tile_bytes(q_tile, q_len, BLOCK_M, FIXED.ITEMSIZE, FIXED)
        record_bytes(trace, slot, q_bytes, (WRITE_DQ,))
        record_end(trace, slot)
