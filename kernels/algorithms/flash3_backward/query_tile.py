"""What a warpgroup that keeps 64 keys does with one query tile."""

from typing import NamedTuple

from kernels.algorithms.flash3.products import issue_dots
from kernels.algorithms.flash3_backward.d_query import add_dq, issue_dq
from kernels.algorithms.flash3_backward.entry import KEYS
from kernels.algorithms.flash3_backward.shared import Shared, barrier, key_tiles, release, tile_of, wait_for
from kernels.algorithms.flash3_backward.work import Item
from kernels.primitives.marks import mark, mark_numbers
from kernels.problem import Band

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

START, HAS_Q, HAS_DO, HAS_S, HAS_P = mark_numbers(KEYS, "start", "has Q", "has dO", "has S", "has P")
HAS_DP, HAS_PLACE, HAS_ALL_DS, STORED_DS = mark_numbers(
    KEYS, "has dP", "has place", "has all dS", "stored dS"
)
HAS_DQ, ADDED_DQ, HAS_DV, HAS_DK, TURNS = mark_numbers(
    KEYS, "has dQ", "added dQ", "has dV", "has dK", "turns"
)


class Keeper(NamedTuple):
    """What a warpgroup that keeps keys works with at every query tile."""

    dq_sum: gl.tensor
    shared: Shared
    item: Item
    band: Band
    scale_log2: gl.tensor
    steps: gl.tensor
    """Query tiles that it visits."""
    lane: gl.tensor
    """None without marks."""
    low_k: gl.tensor
    """The first columns of K, in registers; or None."""


@gluon.jit
def probabilities(scores_t, lse, scale_log2):
    """P^T (ROWS, BLOCK_M) from S^T and lse in base 2. Rows that see no key have lse = +inf, hence P = 0."""
    # [P from lse]
    return gl.exp2(scores_t * scale_log2 - lse[None, :])


@gluon.jit
def apply_mask(p_t, item, q_tile, band, GROUP: gl.constexpr, FIXED: gl.constexpr, LAYOUT: gl.constexpr):
    """P^T with 0 for each key that a row does not see."""
    # [mask]
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
def scores_ahead(k, shared, step, steps, lane, FIXED: gl.constexpr, LAYOUT: gl.constexpr):
    """Issue S^T of a step to come. It may not exist: then what it gets is not used."""
    mark(lane, step, START)
    wait_for(shared.q, step, step < steps, FIXED)
    mark(lane, step, HAS_Q)
    return issue_dots(k, tile_of(shared.q, step, FIXED), LAYOUT)


@gluon.jit
def scores_and_dp(k, v, scores_t, keeper, step, FIXED: gl.constexpr, LAYOUT: gl.constexpr):
    """S^T and lse of a step, and dP^T, which is still under way if a warpgroup of its own computes dQ."""
    shared, lane = keeper.shared, keeper.lane
    if not FIXED.DQ_WARPGROUP:
        mark(lane, step, START)
        wait_for(shared.q, step, True, FIXED)
        mark(lane, step, HAS_Q)
    # Before the products, which keep shared memory busy: beside them its threads waited 18 % of their time
    # for these numbers (ncu, H200, head_dim 128, causal).
    lse = shared.q.numbers.index(step % FIXED.STAGES).load(gl.SliceLayout(0, LAYOUT))
    if FIXED.DQ_WARPGROUP:
        s_t = warpgroup_mma_wait(0, deps=[scores_t])  # (waiting for 1 beside dP: ptxas C7514)
        mark(lane, step, HAS_S)
    else:
        # [QK^T]
        s_t = issue_dots(k, tile_of(shared.q, step, FIXED), LAYOUT, keeper.low_k)
        # [end]
    wait_for(shared.do, step, True, FIXED)
    mark(lane, step, HAS_DO)
    # [dP]
    dp_t = issue_dots(v, tile_of(shared.do, step, FIXED), LAYOUT)
    # [end]
    if not FIXED.DQ_WARPGROUP:
        s_t = warpgroup_mma_wait(1, deps=[s_t])
        mark(lane, step, HAS_S)
        # Before the exponentials: if this comes after them, ptxas moves it up, before most of them.
        dp_t = warpgroup_mma_wait(0, deps=[dp_t])
        mark(lane, step, HAS_DP)
    return s_t, lse, dp_t


@gluon.jit
def hand_over_ds(shared, step, lane, FIXED: gl.constexpr):
    """Say that all threads of this warpgroup have written their part of dS, for products to read."""
    fence_async_shared()
    barrier()
    mbarrier.arrive(shared.ds_full.index(step % FIXED.STAGES))
    mark(lane, step, STORED_DS)


@gluon.jit
def before(step, FIXED: gl.constexpr):
    """A step that has the slot of the step before, and is not negative."""
    return step + FIXED.STAGES - 1


@gluon.jit
def wait_for_ds_before(shared, step, FIXED: gl.constexpr):
    """Wait until both warpgroups have written dS of the step before, if there is one."""
    same_slot = before(step, FIXED)
    mbarrier.wait(shared.ds_full.index(same_slot % FIXED.STAGES), (same_slot // FIXED.STAGES + 1) & 1)


@gluon.jit
def add_dq_before(dq, dq_sum, row, shared, step, lane, GROUP: gl.constexpr, FIXED: gl.constexpr):
    """Add dQ of the step before, which is under way, to the sum from `row` on."""
    dq = warpgroup_mma_wait(2, deps=[dq])
    mbarrier.arrive(shared.ds_empty.index(before(step, FIXED) % FIXED.STAGES), pred=step > 0)
    if step > 0:  # the first is of a dS that does not exist
        mark(lane, step, HAS_DQ)
        add_dq(dq, dq_sum, row, GROUP, FIXED)
    mark(lane, step, ADDED_DQ)


@gluon.jit
def add_last_dq(dq_sum, row, shared, steps, lane, GROUP: gl.constexpr, FIXED: gl.constexpr):
    """Compute dQ of the last step, and add it to the sum from `row` on."""
    wait_for_ds_before(shared, steps, FIXED)
    mark(lane, steps, STORED_DS)
    dq = issue_dq(shared, before(steps, FIXED), GROUP, FIXED)
    dq = warpgroup_mma_wait(0, deps=[dq])
    mark(lane, steps, HAS_DQ)
    add_dq(dq, dq_sum, row, GROUP, FIXED)
    mark(lane, steps, ADDED_DQ)


@gluon.jit
def visit_query_tile(
    GROUP: gl.constexpr, k, v, scores_t, dk, dv, keeper, row_before, step, q_tile, CUT: gl.constexpr,
    FIXED: gl.constexpr,
):  # fmt: skip
    """One query tile. CUT: it has keys that some row does not see. Returns P^T, S^T ahead, dK and dV.

    If a warpgroup of its own computes dQ, S^T of the next tile is issued beside the last products of this
    one, and is under way on return. If not, dQ of the tile before is computed and added to the sum from
    row_before on: by then the other warpgroup has mostly written its half of dS.
    """
    shared = keeper.shared
    DTYPE: gl.constexpr = shared.ds.dtype
    S_LAYOUT: gl.constexpr = FIXED.S_LAYOUT
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, FIXED.ACC_LAYOUT, 2)
    slot = step % FIXED.STAGES
    q = tile_of(shared.q, step, FIXED)
    do = tile_of(shared.do, step, FIXED)
    gl.assume(step >= 0)  # so that slot and phase are a bit each, without the cases of a negative number
    if not FIXED.DQ_WARPGROUP:
        k, v = key_tiles(shared, GROUP, FIXED)
    mark(keeper.lane, step, TURNS)
    s_t, lse, dp_t = scores_and_dp(k, v, scores_t, keeper, step, FIXED, S_LAYOUT)
    p_t = probabilities(s_t, lse, keeper.scale_log2)
    if CUT:
        p_t = apply_mask(p_t, keeper.item, q_tile, keeper.band, GROUP, FIXED, S_LAYOUT)
    delta = shared.do.numbers.index(slot).load(gl.SliceLayout(0, S_LAYOUT))
    mark(keeper.lane, step, HAS_P)
    if FIXED.DQ_WARPGROUP:
        dp_t = warpgroup_mma_wait(0, deps=[dp_t])
        mark(keeper.lane, step, HAS_DP)
        # [dV]
        p = gl.convert_layout(p_t.to(DTYPE), P_LAYOUT)
        dv = warpgroup_mma(p, do, dv, is_async=True)
    # [dS]
    ds_t = (p_t * (dp_t - delta[None, :])).to(DTYPE)
    ds = gl.convert_layout(ds_t, P_LAYOUT)
    mbarrier.wait(shared.ds_empty.index(slot), (step // FIXED.STAGES + 1) & 1)
    mark(keeper.lane, step, HAS_PLACE)
    if FIXED.DQ_WARPGROUP:
        shared.ds.index(slot).slice(GROUP * FIXED.ROWS, FIXED.ROWS, 0).store(ds_t)
        # [dK]
        dk = warpgroup_mma(ds, q, dk, is_async=True)
        # [dS]
        hand_over_ds(shared, step, keeper.lane, FIXED)
        # [QK^T]
        scores_t = scores_ahead(k, shared, step + 1, keeper.steps, keeper.lane, FIXED, S_LAYOUT)
    else:
        # [end]
        wait_for_ds_before(shared, step, FIXED)
        mark(keeper.lane, step, HAS_ALL_DS)
        # [dS]
        shared.ds.index(slot).slice(GROUP * FIXED.ROWS, FIXED.ROWS, 0).store(ds_t)
        hand_over_ds(shared, step, keeper.lane, FIXED)
        # [end]
        dq = issue_dq(shared, before(step, FIXED), GROUP, FIXED)
        # [dV]
        p = gl.convert_layout(p_t.to(DTYPE), P_LAYOUT)
        dv = warpgroup_mma(p, do, dv, is_async=True)
        # [dK]
        dk = warpgroup_mma(ds, q, dk, is_async=True)
        # [end]
        add_dq_before(dq, keeper.dq_sum, row_before, shared, step, keeper.lane, GROUP, FIXED)
    dv, p = warpgroup_mma_wait(1 + FIXED.DQ_WARPGROUP, deps=[dv, p])
    mark(keeper.lane, step, HAS_DV)
    release(shared.do, step, FIXED)
    dk, ds = warpgroup_mma_wait(FIXED.DQ_WARPGROUP, deps=[dk, ds])
    mark(keeper.lane, step, HAS_DK)
    release(shared.q, step, FIXED)
    return p_t, scores_t, dk, dv
