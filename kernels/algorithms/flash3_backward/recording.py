"""Records a tile step of the sweep under TRACE."""

from typing import NamedTuple

from kernels.algorithms.flash3_backward.entry import SWEEP
from kernels.primitives.recorder import (
    ROW_COLUMNS,
    columns_of,
    record_bytes,
    record_end,
    record_start,
    record_times,
    record_where,
)

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

READ_K, READ_V, READ_Q, READ_DO, READ_LSE, READ_D = columns_of(SWEEP, "read", "K", "V", "Q", "dO", "lse", "D")
WRITE_DQ, WRITE_DK, WRITE_DV = columns_of(SWEEP, "write", "dQ", "dK", "dV")


class Written(NamedTuple):
    """Where the warps write down what they did: marks of lanes and a trace, each None if it is off."""

    lanes: gl.tensor
    trace: gl.tensor
    max_steps: gl.tensor


@gluon.jit
def first_slot_of(written, item, band, FIXED: gl.constexpr):
    """Slot of the first step of a program: key tiles are numbered head by head."""
    head = item.batch * (item.q_heads // item.group_size) + item.kv_head
    return (head * gl.cdiv(band.kv_len, FIXED.BLOCK_N) + item.kv_tile) * written.max_steps


@gluon.jit
def record_step(
    written, item, step, q_tile, p_t, dk, dv, start, band, descs, GROUP: gl.constexpr, FIXED: gl.constexpr
):
    """Each warpgroup records its keys' share of the rows, and its rows of the sums; the first one the rest.

    `start` is the global timer at the start of the step. The shares are not added up here: column GROUP of
    the rows has that of the warpgroup.
    """
    BLOCK_M: gl.constexpr = FIXED.BLOCK_M
    BLOCK_N: gl.constexpr = FIXED.BLOCK_N
    BLOCK_D: gl.constexpr = FIXED.BLOCK_D
    ROWS: gl.constexpr = FIXED.ROWS
    LAYOUT: gl.constexpr = p_t.type.layout
    trace = written.trace
    slot = first_slot_of(written, item, band, FIXED) + step
    keys = item.kv_tile * BLOCK_N + GROUP * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, LAYOUT))
    share = gl.sum(gl.where((keys < band.kv_len)[:, None], p_t, 0.0), axis=0)
    rows = trace.rows + slot.to(gl.int64) * (ROW_COLUMNS * BLOCK_M) + GROUP * BLOCK_M
    gl.store(rows + gl.arange(0, BLOCK_M, layout=gl.SliceLayout(0, LAYOUT)), share)
    if FIXED.TRACE_ACC:
        ACC: gl.constexpr = dk.type.layout
        own = GROUP * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, ACC))
        at = own[:, None] * BLOCK_D + gl.arange(0, BLOCK_D, layout=gl.SliceLayout(0, ACC))[None, :]
        at = at + slot.to(gl.int64) * (BLOCK_N * BLOCK_D)
        gl.store(trace.acc + at, dk)
        gl.store(trace.acc_2 + at, dv)
    if GROUP == 0:
        row_bytes = descs.q.shape[3].to(gl.int32) * (descs.q.dtype.primitive_bitwidth // 8)
        head = item.kv_head * item.group_size + step // (item.end - item.first)
        record_where(trace, slot, item.batch * item.q_heads + head, q_tile, item.kv_tile)
        q_bytes = gl.minimum(band.q_len - q_tile * BLOCK_M, BLOCK_M) * row_bytes
        record_bytes(trace, slot, q_bytes, (READ_Q, READ_DO))
        record_bytes(trace, slot, BLOCK_M * 4, (READ_LSE, READ_D))  # padded to whole tiles, as the sum of dQ
        record_bytes(trace, slot, BLOCK_M * 4 * BLOCK_D, (WRITE_DQ,))
        record_times(trace, slot, start)


@gluon.jit
def record_gradients(written, item, steps, band, descs, GROUP: gl.constexpr, FIXED: gl.constexpr):
    """The first warpgroup records the bytes of K, V, dK and dV. K and V are not loaded if no query sees them.

    They belong to the first and to the last step. A program without steps has a slot for dK and dV.
    """
    if GROUP == 0:
        row_bytes = descs.q.shape[3].to(gl.int32) * (descs.q.dtype.primitive_bitwidth // 8)
        kv_bytes = gl.minimum(band.kv_len - item.kv_tile * FIXED.BLOCK_N, FIXED.BLOCK_N) * row_bytes
        first = first_slot_of(written, item, band, FIXED)
        last = gl.maximum(first + steps - 1, first)
        record_bytes(written.trace, last, kv_bytes, (WRITE_DK, WRITE_DV))
        if steps > 0:
            record_bytes(written.trace, first, kv_bytes, (READ_K, READ_V))
        else:
            head = item.batch * item.q_heads + item.kv_head * item.group_size
            record_where(written.trace, first, head, -1, item.kv_tile)
            record_start(written.trace, first)
            record_end(written.trace, first)
