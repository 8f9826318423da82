"""Mask and online softmax of a warpgroup, and the output it writes."""

from __future__ import annotations

from kernels.primitives.masking import sees_a_key
from kernels.primitives.numbers import LN2
from kernels.primitives.online_softmax import online_softmax

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, tma

barrier = getattr(gl, "barrier", None) or gl.thread_barrier  # its name until Triton 3.6


@gluon.jit
def columns_up_to(last, COUNT: gl.constexpr, LAYOUT: gl.constexpr):
    """(rows, COUNT): whether a column of a product, which has this layout, is at most `last` of its row.

    A thread has of each row the columns 8 i + 2 (thread % 4) + {0, 1}. If they are compared as they are, each
    takes a register, is computed before the loop and lives through it. So what differs between threads, bits
    1 and 2, is taken to the other side; the rest is known at compile time, and part of the instruction.
    """
    columns = gl.arange(0, COUNT, layout=gl.SliceLayout(0, LAYOUT))[None, :]
    return (columns & ~6) <= last[:, None] - (columns & 6)


@gluon.jit
def softmax_step(scores, m, l, item, kv_tile, band, scale_log2, FIXED: gl.constexpr, LAYOUT: gl.constexpr):
    """Mask, row max, exponentials and row sum of one tile. Returns P, m, l and alpha."""
    BLOCK_N: gl.constexpr = FIXED.BLOCK_N
    ROWS: gl.constexpr = FIXED.ROWS
    # [mask]
    if FIXED.BOUND_LEFT or FIXED.BOUND_RIGHT or FIXED.RAGGED:
        # A branch, because a second loop over the same Q gave wrong results (ptxas 12.8).
        if (kv_tile < item.first_full) | (kv_tile >= item.end_full):
            ROW: gl.constexpr = gl.SliceLayout(1, LAYOUT)
            shift_to_diagonal = band.kv_len - band.q_len - kv_tile * BLOCK_N
            diagonal = item.first_q + gl.arange(0, ROWS, layout=ROW) + shift_to_diagonal
            last = gl.full([ROWS], band.kv_len - 1 - kv_tile * BLOCK_N, gl.int32, ROW)
            if FIXED.BOUND_RIGHT:
                last = gl.minimum(diagonal + band.right, last)
            scores = gl.where(columns_up_to(last, BLOCK_N, LAYOUT), scores, float("-inf"))
            if FIXED.BOUND_LEFT:
                hidden = columns_up_to(diagonal - band.left - 1, BLOCK_N, LAYOUT)
                scores = gl.where(hidden, float("-inf"), scores)
    # [row max]
    return online_softmax(scores, m, l, scale_log2)


@gluon.jit
def write_out(
    acc,
    m,
    l,
    o_buffer,
    o_desc,
    lse_ptr,
    batch,
    head,
    q_heads,
    first_q,
    band,
    FIXED: gl.constexpr,
    ROW_LAYOUT: gl.constexpr,
    LAYOUT: gl.constexpr,
):
    """Normalise, and write the rows of O and lse that exist. O may still be on its way on return."""
    ROWS: gl.constexpr = FIXED.ROWS
    BLOCK_D: gl.constexpr = FIXED.BLOCK_D
    # [store O, lse]
    offs_m = first_q + gl.arange(0, ROWS, layout=ROW_LAYOUT)
    lse = m * LN2 + gl.log(l)
    o = acc * gl.convert_layout(1.0 / l, gl.SliceLayout(1, LAYOUT))[:, None]
    if FIXED.BOUND_LEFT or FIXED.BOUND_RIGHT:  # a row that sees no key gives 0 and -inf
        lse = gl.where(sees_a_key(offs_m, band), lse, float("-inf"))
        # If the first and the last row see a key, all between do.
        if not (sees_a_key(first_q, band) & sees_a_key(first_q + ROWS - 1, band)):
            rows_of_o = first_q + gl.arange(0, ROWS, layout=gl.SliceLayout(1, LAYOUT))
            o = gl.where(sees_a_key(rows_of_o, band)[:, None], o, 0.0)
    rows = lse_ptr + (batch * q_heads + head).to(gl.int64) * band.q_len
    gl.store(rows + offs_m, lse, mask=offs_m < band.q_len)
    tma.store_wait(0)  # the output before this one has left the buffer
    barrier()
    o_buffer.reshape([ROWS, BLOCK_D]).store(o.to(o_desc.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(o_desc, [batch, head, first_q, 0], o_buffer)
