"""A warpgroup that keeps 64 keys: it sums up their dK and dV over the query tiles that visit them."""

from __future__ import annotations

from kernels.algorithms.flash3_backward.d_query import add_dq, issue_dq, wait_for_buffer
from kernels.algorithms.flash3_backward.lanes import KEYS_ALONE
from kernels.algorithms.flash3_backward.recording import record_gradients, record_step
from kernels.algorithms.flash3_backward.shared import barrier, release, tile_of, wait_for
from kernels.primitives.marks import lane_of, mark, mark_numbers

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.language.extra.cuda import globaltimer

START, HAS_Q, HAS_DO, HAS_S, HAS_P = mark_numbers(KEYS_ALONE, "start", "has Q", "has dO", "has S", "has P")
HAS_DP, HAS_PLACE, HAS_ALL_DS, STORED_DS = mark_numbers(
    KEYS_ALONE, "has dP", "has place", "has all dS", "stored dS"
)
HAS_DQ, ADDED_DQ, HAS_DV, HAS_DK, TURNS = mark_numbers(
    KEYS_ALONE, "has dQ", "added dQ", "has dV", "has dK", "turns"
)


@gluon.jit
def issue_scores(kept, streamed, LAYOUT: gl.constexpr):
    """Issue kept @ streamed^T, such as K Q^T: (rows of kept, rows of streamed), float32."""
    ROWS: gl.constexpr = kept.shape[0]
    COLUMNS: gl.constexpr = streamed.shape[0]
    # [QK^T]
    zeros = gl.zeros([ROWS, COLUMNS], gl.float32, LAYOUT)
    return warpgroup_mma(kept, streamed.permute((1, 0)), zeros, use_acc=False, is_async=True)


@gluon.jit
def probabilities(
    scores_t,
    lse,
    item,
    q_tile,
    band,
    scale_log2,
    GROUP: gl.constexpr,
    FIXED: gl.constexpr,
    LAYOUT: gl.constexpr,
):
    """P^T (ROWS, BLOCK_M) from S^T and lse in base 2. Rows that see no key have lse = +inf, hence P = 0."""
    # [P from lse]
    p_t = gl.exp2(scores_t * scale_log2 - lse[None, :])
    # [mask]
    if FIXED.BOUND_LEFT or FIXED.BOUND_RIGHT or FIXED.RAGGED:
        is_cut = (q_tile < item.first_full) | (q_tile >= item.end_full)
        if is_cut:  # its indices are not made before the loop, where they would take registers
            first_k = item.kv_tile * FIXED.BLOCK_N + GROUP * FIXED.ROWS
            keys = first_k + gl.arange(0, FIXED.ROWS, layout=gl.SliceLayout(1, LAYOUT))
            rows = q_tile * FIXED.BLOCK_M + gl.arange(0, FIXED.BLOCK_M, layout=gl.SliceLayout(0, LAYOUT))
            diagonal = keys - (band.kv_len - band.q_len)
            if FIXED.BOUND_RIGHT:
                p_t = gl.where(rows[None, :] >= (diagonal - band.right)[:, None], p_t, 0.0)
            if FIXED.BOUND_LEFT:
                p_t = gl.where(rows[None, :] <= (diagonal + band.left)[:, None], p_t, 0.0)
            if FIXED.RAGGED:
                p_t = gl.where((keys < band.kv_len)[:, None], p_t, 0.0)
    # [end]
    return p_t


@gluon.jit
def write_gradient(acc, desc, buffer, item, first_k, FIXED: gl.constexpr):
    """Write dK or dV of the keys from `first_k` on by way of a tile that nobody reads any more."""
    wait_for_buffer()
    buffer.reshape([FIXED.ROWS, FIXED.BLOCK_D]).store(acc.to(desc.dtype))
    fence_async_shared()
    barrier()
    tma.async_copy_shared_to_global(desc, [item.batch, item.kv_head, first_k, 0], buffer)


@gluon.jit
def scores_ahead(k, shared, step, steps, lane, FIXED: gl.constexpr, LAYOUT: gl.constexpr):
    """Issue S^T of a step to come. It may not exist: then what it gets is not used."""
    mark(lane, step, START)
    wait_for(shared.q, step, step < steps, FIXED)
    mark(lane, step, HAS_Q)
    return issue_scores(k, tile_of(shared.q, step, FIXED), LAYOUT)


@gluon.jit
def hand_over_ds(shared, step, lane, FIXED: gl.constexpr):
    """Say that all threads of this warpgroup have written their part of dS, for products to read."""
    fence_async_shared()
    barrier()
    mbarrier.arrive(shared.ds_full.index(step % FIXED.STAGES))
    mark(lane, step, STORED_DS)


@gluon.jit
def scores_and_dp(k, v, q, do, scores_t, shared, step, lane, FIXED: gl.constexpr, LAYOUT: gl.constexpr):
    """S^T and lse of a step, and dP^T, which is still under way."""
    if FIXED.SCORES_AHEAD:
        s_t = warpgroup_mma_wait(0, deps=[scores_t])  # (waiting for 1 beside dP: ptxas C7514)
        mark(lane, step, HAS_S)
    else:
        mark(lane, step, START)
        wait_for(shared.q, step, True, FIXED)
        mark(lane, step, HAS_Q)
        s_t = issue_scores(k, q, LAYOUT)
    wait_for(shared.do, step, True, FIXED)
    mark(lane, step, HAS_DO)
    # [dP]
    dp_t = issue_scores(v, do, LAYOUT)
    # [end]
    lse = shared.q.numbers.index(step % FIXED.STAGES).load(gl.SliceLayout(0, LAYOUT))
    if not FIXED.SCORES_AHEAD:
        s_t = warpgroup_mma_wait(1, deps=[s_t])
        mark(lane, step, HAS_S)
    return s_t, lse, dp_t


@gluon.jit
def add_dq_before(dq, descs, shared, step, first_row, lane, GROUP: gl.constexpr, FIXED: gl.constexpr):
    """Add dQ of the step before, which is under way, to the sum."""
    STAGES: gl.constexpr = FIXED.STAGES
    dq = warpgroup_mma_wait(2, deps=[dq])
    mark(lane, step, HAS_DQ)
    mbarrier.arrive(shared.ds_empty.index((step + STAGES - 1) % STAGES), pred=step > 0)
    wait_for_buffer()
    if step > 0:  # the first is of a dS that does not exist
        row = first_row + (step - 1) * FIXED.BLOCK_M
        add_dq(dq, shared.dq.index(GROUP), descs.dq, row, GROUP * FIXED.ROWS)
    mark(lane, step, ADDED_DQ)


@gluon.jit
def add_dq_at_once(dq, descs, shared, step, row, lane, GROUP: gl.constexpr, FIXED: gl.constexpr):
    """Add dQ of this step, which has been computed, to the sum."""
    mbarrier.arrive(shared.ds_empty.index(step % FIXED.STAGES))
    wait_for_buffer()
    add_dq(dq, shared.dq.index(GROUP), descs.dq, row, GROUP * FIXED.ROWS)
    mark(lane, step, ADDED_DQ)


@gluon.jit
def first_row_of(item, FIXED: gl.constexpr):
    """First row of the sum of dQ that a program adds to."""
    first_head = item.batch * item.q_heads + item.kv_head * item.group_size
    return first_head * item.padded_rows + item.first * FIXED.BLOCK_M


@gluon.jit
def add_last_dq(descs, shared, steps, first_row, GROUP: gl.constexpr, FIXED: gl.constexpr):
    """Compute dQ of the last step, and add it to the sum."""
    STAGES: gl.constexpr = FIXED.STAGES
    last = steps + STAGES - 1
    mbarrier.wait(shared.ds_full.index(last % STAGES), (last // STAGES + 1) & 1)
    dq = issue_dq(shared, last, GROUP, FIXED)
    dq = warpgroup_mma_wait(0, deps=[dq])
    wait_for_buffer()
    row = first_row + (steps - 1) * FIXED.BLOCK_M
    add_dq(dq, shared.dq.index(GROUP), descs.dq, row, GROUP * FIXED.ROWS)


@gluon.jit
def accumulate(
    GROUP: gl.constexpr, descs, shared, item, band, scale, scale_log2, written, FIXED: gl.constexpr
):
    """dK and dV of the keys from row GROUP * ROWS on of the item. dK gets the scale at the end."""
    ROWS: gl.constexpr = FIXED.ROWS
    BLOCK_M: gl.constexpr = FIXED.BLOCK_M
    BLOCK_D: gl.constexpr = FIXED.BLOCK_D
    STAGES: gl.constexpr = FIXED.STAGES
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], instr_shape=[16, BLOCK_M, 16])
    ACC_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], instr_shape=[16, BLOCK_D, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, ACC_LAYOUT, 2)
    k = shared.k.reshape([FIXED.BLOCK_N, BLOCK_D]).slice(GROUP * ROWS, ROWS, 0)
    v = shared.v.index(GROUP).reshape([ROWS, BLOCK_D])
    lane = lane_of(written.lanes, GROUP) if written.lanes is not None else None
    dk = gl.zeros([ROWS, BLOCK_D], gl.float32, ACC_LAYOUT)
    dv = gl.zeros([ROWS, BLOCK_D], gl.float32, ACC_LAYOUT)
    steps = (item.end - item.first) * item.group_size
    q_tile = item.first
    first_row = first_row_of(item, FIXED)
    row = first_row
    to_next_head = item.padded_rows - (item.end - item.first) * BLOCK_M
    if steps > 0:
        mbarrier.wait(shared.kv_full.index(0), 0)
        mbarrier.wait(shared.kv_full.index(1), 0)
    scores_t = gl.zeros([ROWS, BLOCK_M], gl.float32, S_LAYOUT)
    if FIXED.SCORES_AHEAD:
        scores_t = scores_ahead(k, shared, 0, steps, lane, FIXED, S_LAYOUT)
    for step in range(steps):
        mark(lane, step, TURNS)
        if FIXED.TRACE:
            start = globaltimer()
        slot = step % STAGES
        before = step + STAGES - 1  # the step before, in the slot and the phase of its barriers
        q = tile_of(shared.q, step, FIXED)
        do = tile_of(shared.do, step, FIXED)
        s_t, lse, dp_t = scores_and_dp(k, v, q, do, scores_t, shared, step, lane, FIXED, S_LAYOUT)
        p_t = probabilities(s_t, lse, item, q_tile, band, scale_log2, GROUP, FIXED, S_LAYOUT)
        if not FIXED.DQ_BEHIND:
            p = gl.convert_layout(p_t.to(descs.q.dtype), P_LAYOUT)
        delta = shared.do.numbers.index(slot).load(gl.SliceLayout(0, S_LAYOUT))
        mark(lane, step, HAS_P)
        dp_t = warpgroup_mma_wait(0, deps=[dp_t])
        mark(lane, step, HAS_DP)
        # [dV]
        if not FIXED.DQ_BEHIND:
            dv = warpgroup_mma(p, do, dv, is_async=True)
        # [dS]
        ds_t = (p_t * (dp_t - delta[None, :])).to(descs.q.dtype)
        mbarrier.wait(shared.ds_empty.index(slot), (step // STAGES + 1) & 1)
        mark(lane, step, HAS_PLACE)
        shared.ds.index(slot).slice(GROUP * ROWS, ROWS, 0).store(ds_t)
        ds = gl.convert_layout(ds_t, P_LAYOUT)
        # [end]
        if FIXED.DQ_BEHIND:
            p = gl.convert_layout(p_t.to(descs.q.dtype), P_LAYOUT)
            mbarrier.wait(shared.ds_full.index(before % STAGES), (before // STAGES + 1) & 1)
            mark(lane, step, HAS_ALL_DS)
            dq = issue_dq(shared, before, GROUP, FIXED)
            # [dV]
            dv = warpgroup_mma(p, do, dv, is_async=True)
        # [dK]
        if FIXED.DQ_BEHIND or FIXED.DQ_WARPGROUP:
            dk = warpgroup_mma(ds, q, dk, is_async=True)
        # [end]
        hand_over_ds(shared, step, lane, FIXED)
        if FIXED.DQ_WARPGROUP:
            if FIXED.SCORES_AHEAD:
                scores_t = scores_ahead(k, shared, step + 1, steps, lane, FIXED, S_LAYOUT)
            dv, p = warpgroup_mma_wait(1 + FIXED.SCORES_AHEAD, deps=[dv, p])
            mark(lane, step, HAS_DV)
            release(shared.do, step, FIXED)
        elif FIXED.DQ_BEHIND:
            add_dq_before(dq, descs, shared, step, first_row, lane, GROUP, FIXED)
            dv, p = warpgroup_mma_wait(1, deps=[dv, p])
            mark(lane, step, HAS_DV)
            release(shared.do, step, FIXED)
        else:
            mbarrier.wait(shared.ds_full.index(slot), (step // STAGES) & 1)
            mark(lane, step, HAS_ALL_DS)
            dq = issue_dq(shared, step, GROUP, FIXED)
            # [dK]
            dk = warpgroup_mma(ds, q, dk, is_async=True)
            # [end]
            dq, dv, p = warpgroup_mma_wait(1, deps=[dq, dv, p])
            mark(lane, step, HAS_DQ)
            release(shared.do, step, FIXED)
            add_dq_at_once(dq, descs, shared, step, row, lane, GROUP, FIXED)
        dk, ds = warpgroup_mma_wait(FIXED.SCORES_AHEAD, deps=[dk, ds])
        mark(lane, step, HAS_DK)
        release(shared.q, step, FIXED)
        if FIXED.TRACE:
            record_step(written, item, step, q_tile, p_t, dk, dv, start, band, descs, GROUP, FIXED)
        row += BLOCK_M
        q_tile += 1
        if q_tile == item.end:
            q_tile = item.first
            row += to_next_head
    if FIXED.SCORES_AHEAD:
        scores_t = warpgroup_mma_wait(0, deps=[scores_t])  # of a tile that does not exist
    if FIXED.DQ_BEHIND:
        is_left = steps > 0
        if is_left:
            add_last_dq(descs, shared, steps, first_row, GROUP, FIXED)
    if FIXED.TRACE:
        record_gradients(written, item, steps, band, descs, GROUP, FIXED)
    # [store dK, dV]
    first_k = item.kv_tile * FIXED.BLOCK_N + GROUP * ROWS
    write_gradient(dv, descs.dv, shared.v.index(GROUP), item, first_k, FIXED)
    write_gradient(dk * scale, descs.dk, shared.v.index(GROUP), item, first_k, FIXED)
    tma.store_wait(0)
