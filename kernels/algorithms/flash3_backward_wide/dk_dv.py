"""dK and dV of 64 keys: one warpgroup sums up dV and sends P^T to the other, which sums up dK."""

from typing import NamedTuple

from kernels.algorithms.flash3.products import issue_dots
from kernels.algorithms.flash3_backward.accumulate import write_gradient
from kernels.algorithms.flash3_backward.query_tile import apply_mask, probabilities
from kernels.algorithms.flash3_backward.shared import (
    Descriptors,
    Stream,
    barrier,
    load_into,
    make_barriers,
    make_stream,
    release,
    tile_of,
    wait_for,
)
from kernels.algorithms.flash3_backward.work import SIZES, Heads, take_item
from kernels.problem import Band

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)


class Shared(NamedTuple):
    """K and V, which stay; Q with lse and dO with D, which are streamed; P^T, which is sent."""

    k: gl.shared_memory_descriptor
    v: gl.shared_memory_descriptor
    kv_full: gl.shared_memory_descriptor
    q: Stream
    do: Stream
    p: gl.shared_memory_descriptor
    p_full: gl.shared_memory_descriptor
    p_empty: gl.shared_memory_descriptor


@gluon.jit
def make_shared(descs, FIXED: gl.constexpr):
    """All of it."""
    P_LAYOUT: gl.constexpr = gl.NVMMASharedLayout.get_default_for([FIXED.BLOCK_N, FIXED.BLOCK_M], gl.float32)
    k = gl.allocate_shared_memory(descs.k.dtype, descs.k.block_type.shape, descs.k.layout)
    v = gl.allocate_shared_memory(descs.v.dtype, descs.v.block_type.shape, descs.v.layout)
    q = make_stream(descs.q, descs.lse, FIXED)
    do = make_stream(descs.do, descs.delta, FIXED)
    p = gl.allocate_shared_memory(gl.float32, [FIXED.STAGES, FIXED.BLOCK_N, FIXED.BLOCK_M], P_LAYOUT)
    p_full = make_barriers(FIXED.STAGES, 1)
    return Shared(k, v, make_barriers(2, 1), q, do, p, p_full, make_barriers(FIXED.STAGES, 1))


@gluon.jit
def sum_dv(descs, shared, item, band, scale_log2, FIXED: gl.constexpr):
    """P^T of every query tile, in float32 for the other warpgroup, and dV."""
    ROWS: gl.constexpr = FIXED.ROWS
    BLOCK_M: gl.constexpr = FIXED.BLOCK_M
    BLOCK_D: gl.constexpr = FIXED.BLOCK_D
    STAGES: gl.constexpr = FIXED.STAGES
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], instr_shape=[16, BLOCK_M, 16])
    ACC_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], instr_shape=[16, BLOCK_D, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, ACC_LAYOUT, 2)
    k = shared.k.reshape([ROWS, BLOCK_D])
    dv = gl.zeros([ROWS, BLOCK_D], gl.float32, ACC_LAYOUT)
    steps = (item.end - item.first) * item.group_size
    q_tile = item.first
    if steps > 0:
        mbarrier.wait(shared.kv_full.index(0), 0)
        wait_for(shared.q, 0, True, FIXED)
    s_t = issue_dots(k, tile_of(shared.q, 0, FIXED), S_LAYOUT)
    s_t = warpgroup_mma_wait(0, deps=[s_t])
    for step in range(steps):
        slot = step % STAGES
        lse = shared.q.numbers.index(slot).load(gl.SliceLayout(0, S_LAYOUT))
        p_t = probabilities(s_t, lse, scale_log2)
        if FIXED.BOUND_LEFT or FIXED.BOUND_RIGHT or FIXED.RAGGED:
            is_cut = (q_tile < item.first_full) | (q_tile >= item.end_full)
            if is_cut:  # its indices are not made before the loop, where they would take registers
                p_t = apply_mask(p_t, item, q_tile, band, 0, FIXED, S_LAYOUT)
        release(shared.q, step, FIXED)
        mbarrier.wait(shared.p_empty.index(slot), (step // STAGES + 1) & 1)
        shared.p.index(slot).store(p_t)  # before dV is issued: after it costs a third of the speed
        barrier()
        mbarrier.arrive(shared.p_full.index(slot))
        p = gl.convert_layout(p_t.to(descs.dv.dtype), P_LAYOUT)
        wait_for(shared.do, step, True, FIXED)
        dv = warpgroup_mma(p, tile_of(shared.do, step, FIXED), dv, is_async=True)
        wait_for(shared.q, step + 1, step + 1 < steps, FIXED)
        s_t = issue_dots(k, tile_of(shared.q, step + 1, FIXED), S_LAYOUT)
        dv, p = warpgroup_mma_wait(1, deps=[dv, p])
        release(shared.do, step, FIXED)
        s_t = warpgroup_mma_wait(0, deps=[s_t])  # the last one is of a tile that does not exist
        q_tile += 1
        if q_tile == item.end:
            q_tile = item.first
    write_gradient(dv, descs.dv, shared.k, item, item.kv_tile * FIXED.BLOCK_N, FIXED)
    tma.store_wait(0)


@gluon.jit
def sum_dk(descs, shared, item, scale, FIXED: gl.constexpr):
    """dP^T of every query tile, dS^T with the P^T that the other warpgroup sends, and dK."""
    ROWS: gl.constexpr = FIXED.ROWS
    BLOCK_M: gl.constexpr = FIXED.BLOCK_M
    BLOCK_D: gl.constexpr = FIXED.BLOCK_D
    STAGES: gl.constexpr = FIXED.STAGES
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], instr_shape=[16, BLOCK_M, 16])
    ACC_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], instr_shape=[16, BLOCK_D, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, ACC_LAYOUT, 2)
    v = shared.v.reshape([ROWS, BLOCK_D])
    dk = gl.zeros([ROWS, BLOCK_D], gl.float32, ACC_LAYOUT)
    steps = (item.end - item.first) * item.group_size
    if steps > 0:
        mbarrier.wait(shared.kv_full.index(1), 0)
        wait_for(shared.do, 0, True, FIXED)
    dp_t = issue_dots(v, tile_of(shared.do, 0, FIXED), S_LAYOUT)
    dp_t = warpgroup_mma_wait(0, deps=[dp_t])
    for step in range(steps):
        slot = step % STAGES
        delta = shared.do.numbers.index(slot).load(gl.SliceLayout(0, S_LAYOUT))
        release(shared.do, step, FIXED)
        mbarrier.wait(shared.p_full.index(slot), (step // STAGES) & 1)
        p_t = shared.p.index(slot).load(S_LAYOUT)
        barrier()
        mbarrier.arrive(shared.p_empty.index(slot))
        ds_t = p_t * (dp_t - delta[None, :])
        ds = gl.convert_layout(ds_t.to(descs.dk.dtype), P_LAYOUT)
        wait_for(shared.q, step, True, FIXED)
        dk = warpgroup_mma(ds, tile_of(shared.q, step, FIXED), dk, is_async=True)
        wait_for(shared.do, step + 1, step + 1 < steps, FIXED)
        dp_t = issue_dots(v, tile_of(shared.do, step + 1, FIXED), S_LAYOUT)
        dk, ds = warpgroup_mma_wait(1, deps=[dk, ds])
        release(shared.q, step, FIXED)
        dp_t = warpgroup_mma_wait(0, deps=[dp_t])  # the last one is of a tile that does not exist
    write_gradient(dk * scale, descs.dk, shared.v, item, item.kv_tile * FIXED.BLOCK_N, FIXED)
    tma.store_wait(0)


@gluon.jit
def load_tiles(descs, shared, item, FIXED: gl.constexpr):
    """Load K and V of the item, and its query tiles, head after head."""
    first_k = item.kv_tile * FIXED.BLOCK_N
    at = [item.batch, item.kv_head, first_k, 0]
    step = 0
    if item.first < item.end:
        k_full = shared.kv_full.index(0)
        v_full = shared.kv_full.index(1)
        mbarrier.expect(k_full, descs.k.block_type.nbytes)
        tma.async_copy_global_to_shared(descs.k, at, k_full, shared.k)
        mbarrier.expect(v_full, descs.v.block_type.nbytes)
        tma.async_copy_global_to_shared(descs.v, at, v_full, shared.v)
    for member in range(item.group_size):
        head = item.kv_head * item.group_size + member
        for q_tile in range(item.first, item.end):
            load_into(shared.q, descs.q, descs.lse, item, head, q_tile, step, None, 0, FIXED)
            load_into(shared.do, descs.do, descs.delta, item, head, q_tile, step, None, 0, FIXED)
            step += 1


@gluon.jit(do_not_specialize=SIZES)
def _attn_bwd_hopper_dk_dv(
    q_desc, do_desc, k_desc, v_desc, lse_desc, delta_desc, dk_desc, dv_desc, scale, scale_log2, q_heads,
    kv_heads, group_size, heads_in_turn, padded_rows, q_len, kv_len, left, right, FIXED: gl.constexpr,
):  # fmt: skip
    """dK and dV of one key tile of one key head. lse (in base 2) and D have padded_rows rows per head."""
    band = Band(q_len, kv_len, left, right)
    heads = Heads(q_heads, kv_heads, group_size, heads_in_turn, padded_rows)
    descs = Descriptors(q_desc, do_desc, k_desc, v_desc, lse_desc, delta_desc, dk_desc, dv_desc)
    shared = make_shared(descs, FIXED)
    fence_async_shared()
    item = take_item(heads, band, FIXED)
    gl.warp_specialize(
        [
            (sum_dv, (descs, shared, item, band, scale_log2, FIXED)),
            (sum_dk, (descs, shared, item, scale, FIXED)),
            (load_tiles, (descs, shared, item, FIXED)),
        ],
        [4, 1],
        [FIXED.COMPUTE_REGISTERS, FIXED.LOAD_REGISTERS],
    )
