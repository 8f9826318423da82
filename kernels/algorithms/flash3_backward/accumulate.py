"""A warpgroup that keeps 64 keys: it sums up their dK and dV over the query tiles that visit them."""

from kernels.algorithms.flash3_backward.query_tile import Keeper, add_last_dq, scores_ahead, visit_query_tile
from kernels.algorithms.flash3_backward.recording import record_gradients, record_step
from kernels.algorithms.flash3_backward.shared import barrier, key_tiles
from kernels.algorithms.flash3_backward.work import WHOLE, tiles_of_span
from kernels.primitives.marks import lane_of

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma_wait,
)
from triton.language.extra.cuda import globaltimer


@gluon.jit
def write_gradient(acc, desc, buffer, item, first_k, FIXED: gl.constexpr):
    """Write dK or dV of the keys from `first_k` on by way of a tile that nobody reads any more."""
    tma.store_wait(0)  # nothing that this warpgroup sends out is still read from shared memory
    barrier()  # the warp that sends has waited
    buffer.reshape([FIXED.ROWS, FIXED.BLOCK_D]).store(acc.to(desc.dtype))
    fence_async_shared()
    barrier()
    tma.async_copy_shared_to_global(desc, [item.batch, item.kv_head, first_k, 0], buffer)


@gluon.jit
def accumulate(
    GROUP: gl.constexpr, descs, dq_sum, shared, item, band, scale, scale_log2, written, FIXED: gl.constexpr
):
    """dK and dV of the keys from row GROUP * ROWS on of the item. dK gets the scale at the end.

    Query tiles that need the mask have loops of their own, before and after that of the whole ones. In one
    loop for all, the mask would take registers that the other tiles need.
    """
    ROWS: gl.constexpr = FIXED.ROWS
    BLOCK_M: gl.constexpr = FIXED.BLOCK_M
    BLOCK_D: gl.constexpr = FIXED.BLOCK_D
    S_LAYOUT: gl.constexpr = FIXED.S_LAYOUT
    ACC_LAYOUT: gl.constexpr = FIXED.ACC_LAYOUT
    lane = lane_of(written.lanes, GROUP) if written.lanes is not None else None
    dk = gl.zeros([ROWS, BLOCK_D], gl.float32, ACC_LAYOUT)
    dv = gl.zeros([ROWS, BLOCK_D], gl.float32, ACC_LAYOUT)
    steps = (item.end - item.first) * item.group_size
    if steps > 0:
        mbarrier.wait(shared.kv_full.index(0), 0)
        mbarrier.wait(shared.kv_full.index(1), 0)
    k, v = key_tiles(shared, GROUP, FIXED)
    # The products ask for more bytes than shared memory delivers: what fits of K and V stays in registers.
    low_k = None
    if FIXED.LOW_COLUMNS > 0:
        low_k = k.slice(0, FIXED.LOW_COLUMNS, 1).load(gl.DotOperandLayout(0, S_LAYOUT, 2))
    if FIXED.DQ_WARPGROUP:
        k = k.load(gl.DotOperandLayout(0, S_LAYOUT, 2))
        v = v.load(gl.DotOperandLayout(0, S_LAYOUT, 2))
    scores_t = gl.zeros([ROWS, BLOCK_M], gl.float32, S_LAYOUT)
    if FIXED.DQ_WARPGROUP:
        scores_t = scores_ahead(k, shared, 0, steps, lane, FIXED, S_LAYOUT)
    keeper = Keeper(dq_sum, shared, item, band, scale_log2, steps, lane, low_k)
    step = 0
    row_before = 0
    for member in range(item.group_size):
        head = item.batch * item.q_heads + item.kv_head * item.group_size + member
        for span in gl.static_range(3):
            if FIXED.HAS_SPAN[span]:
                begin, end = tiles_of_span(item, span)
                for q_tile in range(begin, end):
                    if FIXED.TRACE:
                        start = globaltimer()
                    p_t, scores_t, dk, dv = visit_query_tile(
                        GROUP, k, v, scores_t, dk, dv, keeper, row_before, step, q_tile, span != WHOLE, FIXED
                    )
                    if FIXED.TRACE:
                        record_step(
                            written, item, step, q_tile, p_t, dk, dv, start, band, descs, GROUP, FIXED
                        )
                    row_before = head * item.padded_rows + q_tile * BLOCK_M
                    step += 1
    if FIXED.DQ_WARPGROUP:
        scores_t = warpgroup_mma_wait(0, deps=[scores_t])  # of a tile that does not exist
    else:
        is_left = steps > 0
        if is_left:
            add_last_dq(dq_sum, row_before, shared, steps, lane, GROUP, FIXED)
    if FIXED.TRACE:
        record_gradients(written, item, steps, band, descs, GROUP, FIXED)
    # [store dK, dV]
    first_k = item.kv_tile * FIXED.BLOCK_N + GROUP * ROWS
    write_gradient(dv, descs.dv, shared.v.index(GROUP), item, first_k, FIXED)
    write_gradient(dk * scale, descs.dk, shared.v.index(GROUP), item, first_k, FIXED)
    tma.store_wait(0)
