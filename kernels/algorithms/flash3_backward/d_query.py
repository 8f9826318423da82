"""dQ = dS K of a step, and its way into the float32 sum in device memory."""

from __future__ import annotations

from kernels.algorithms.flash3_backward.lanes import QUERIES
from kernels.algorithms.flash3_backward.shared import barrier
from kernels.primitives.marks import lane_of, mark, mark_numbers

from triton._C.libtriton import ir
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

START, HAS_ALL_DS, HAS_DQ, HAS_PLACE, ADDED_DQ = mark_numbers(QUERIES, *QUERIES.marks)


@builtin
def async_add(desc, coord, source, _semantic=None):
    """Add a tile in shared memory to device memory, asynchronously. Gluon itself has it from Triton 3.8."""
    coord = _semantic._convert_to_ir_values(coord, require_i64=False)
    _semantic.builder.create_async_tma_reduce(
        ir.DESCRIPTOR_REDUCE_KIND.ADD, desc.handle, coord, source.handle
    )


@gluon.jit
def issue_dq(shared, step, PART: gl.constexpr, FIXED: gl.constexpr):
    """Issue dS K of this step for the columns of part PART: (BLOCK_M, ROWS), float32."""
    ROWS: gl.constexpr = FIXED.ROWS
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], instr_shape=[16, ROWS, 16])
    # [dQ]
    ds_t = shared.ds.index(step % FIXED.STAGES)
    k = shared.k.reshape([FIXED.BLOCK_N, FIXED.BLOCK_D])
    BLOCK_M: gl.constexpr = FIXED.BLOCK_M
    zeros = gl.zeros([BLOCK_M, ROWS], gl.float32, LAYOUT)
    columns = k if FIXED.BLOCK_D == ROWS else k.slice(PART * ROWS, ROWS, 1)
    return warpgroup_mma(ds_t.permute((1, 0)), columns, zeros, use_acc=False, is_async=True)


@gluon.jit
def wait_for_buffer():
    """Wait until nothing that this warpgroup sends out is still read from shared memory."""
    tma.store_wait(0)
    barrier()  # the warp that sends has waited


@gluon.jit
def add_dq(dq, buffer, desc, row, column):
    """Add a part of dQ to the sum at (row, column). The buffer may still be read on return."""
    # [add dQ]
    buffer.store(dq)
    fence_async_shared()
    barrier()
    async_add(desc, [row, column], buffer)


@gluon.jit
def sum_dq(descs, shared, item, lanes, FIXED: gl.constexpr):
    """A warpgroup that computes dQ of every step, and nothing else; it takes turns with two buffers."""
    STAGES: gl.constexpr = FIXED.STAGES
    if item.first < item.end:
        mbarrier.wait(shared.kv_full.index(0), 0)
    lane = lane_of(lanes, 2) if lanes is not None else None
    step = 0
    for member in range(item.group_size):
        head = item.kv_head * item.group_size + member
        first_row = (item.batch * item.q_heads + head) * item.padded_rows
        for q_tile in range(item.first, item.end):
            mark(lane, step, START)
            mbarrier.wait(shared.ds_full.index(step % STAGES), (step // STAGES) & 1)
            mark(lane, step, HAS_ALL_DS)
            dq = issue_dq(shared, step, 0, FIXED)
            tma.store_wait(1)
            dq = warpgroup_mma_wait(0, deps=[dq])
            mark(lane, step, HAS_DQ)
            mbarrier.arrive(shared.ds_empty.index(step % STAGES))
            barrier()  # the warp that adds has waited for its buffer
            mark(lane, step, HAS_PLACE)
            add_dq(dq, shared.dq.index(step % 2), descs.dq, first_row + q_tile * FIXED.BLOCK_M, 0)
            mark(lane, step, ADDED_DQ)
            step += 1
    tma.store_wait(0)
