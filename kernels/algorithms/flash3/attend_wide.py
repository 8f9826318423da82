"""A warpgroup that computes with head_dim over 128: it takes 64 rows of one query tile after another.

Its part of O takes 128 registers of a thread, and K and V the shared memory. So one query tile is there at a
time, O leaves by way of the place of Q, and nothing overlaps from one query tile to the next. The other
warpgroup computes meanwhile.
"""

from __future__ import annotations

from kernels.algorithms.flash3.attend import issue_scores, issue_values
from kernels.algorithms.flash3.recording import record_step
from kernels.algorithms.flash3.rings import release
from kernels.algorithms.flash3.softmax import barrier, softmax_step, write_out
from kernels.algorithms.flash3.work import next_unit, take_item

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    tma,
    warpgroup_mma_wait,
)
from triton.language.extra.cuda import globaltimer


@gluon.jit
def attend_wide(
    GROUP: gl.constexpr, descs, rings, lse_ptr, band, work, scale_log2, trace, max_steps, FIXED: gl.constexpr
):
    """Attend for ROWS rows, from row GROUP * ROWS on, of every query tile of this program."""
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], instr_shape=[16, FIXED.BLOCK_N, 16])
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], instr_shape=[16, FIXED.BLOCK_D, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, 2)
    ROW_LAYOUT: gl.constexpr = gl.SliceLayout(1, S_LAYOUT)
    O_ROW_LAYOUT: gl.constexpr = gl.SliceLayout(1, O_LAYOUT)
    DTYPE: gl.constexpr = descs.o.dtype
    ROWS: gl.constexpr = FIXED.ROWS
    BLOCK_D: gl.constexpr = FIXED.BLOCK_D
    STAGES: gl.constexpr = FIXED.STAGES
    row_bytes = descs.o.shape[3].to(gl.int32) * (DTYPE.primitive_bitwidth // 8)
    q_buffer = rings.q.buffers.index(GROUP)
    q = q_buffer.reshape([ROWS, BLOCK_D])

    unit = gl.program_id(0)
    second = unit < 0
    items = 0
    step = 0
    while unit < work.units:
        item = take_item(unit, second, work, band, GROUP, FIXED)
        mbarrier.wait(rings.q.full.index(GROUP), items & 1)
        if FIXED.TRACE:
            start = globaltimer()
        scores = issue_scores(q, rings.k, step, FIXED, S_LAYOUT)
        scores = warpgroup_mma_wait(0, deps=[scores])
        release(rings.k, step, STAGES)
        m = gl.full([ROWS], float("-inf"), gl.float32, ROW_LAYOUT)
        l = gl.zeros([ROWS], gl.float32, ROW_LAYOUT)
        first_p, m, l, alpha = softmax_step(scores, m, l, item, item.first, band, scale_log2, FIXED, S_LAYOUT)
        if FIXED.TRACE:
            record_step(
                trace, max_steps, item, item.first, m, l, alpha, start, work, band, row_bytes,
                GROUP, FIXED, ROW_LAYOUT,
            )  # fmt: skip
        p = gl.convert_layout(first_p.to(DTYPE), P_LAYOUT)
        acc = gl.zeros([ROWS, BLOCK_D], gl.float32, O_LAYOUT)
        for kv_tile in range(item.first + 1, item.end):
            step += 1
            if FIXED.TRACE:
                start = globaltimer()
            acc = acc * gl.convert_layout(alpha, O_ROW_LAYOUT)[:, None]
            scores = issue_scores(q, rings.k, step, FIXED, S_LAYOUT)
            acc = issue_values(p, acc, True, rings.v, step - 1, FIXED)
            scores = warpgroup_mma_wait(1, deps=[scores])
            release(rings.k, step, STAGES)
            new_p, m, l, alpha = softmax_step(scores, m, l, item, kv_tile, band, scale_log2, FIXED, S_LAYOUT)
            acc, p = warpgroup_mma_wait(0, deps=[acc, p])  # p as well: its registers are read until then
            release(rings.v, step - 1, STAGES)
            if FIXED.TRACE:
                record_step(
                    trace, max_steps, item, kv_tile, m, l, alpha, start, work, band, row_bytes,
                    GROUP, FIXED, ROW_LAYOUT,
                )  # fmt: skip
            p = gl.convert_layout(new_p.to(DTYPE), P_LAYOUT)
        acc = acc * gl.convert_layout(alpha, O_ROW_LAYOUT)[:, None]
        acc = issue_values(p, acc, True, rings.v, step, FIXED)
        acc, p = warpgroup_mma_wait(0, deps=[acc, p])
        release(rings.v, step, STAGES)
        step += 1
        write_out(
            acc, m, l, q_buffer, descs.o, lse_ptr, item.batch, item.head, work.q_heads.number, item.first_q,
            band, FIXED, ROW_LAYOUT, O_LAYOUT,
        )  # fmt: skip
        tma.store_wait(0)
        barrier()  # the warp that writes has waited
        mbarrier.arrive(rings.q.empty.index(GROUP))
        items += 1
        unit, second = next_unit(unit, second, work)
