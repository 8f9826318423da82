"""dQ of 128 queries: two warpgroups of 64 queries each, past which the keys are streamed."""

from typing import NamedTuple

from kernels.algorithms.flash3.products import issue_dots
from kernels.algorithms.flash3.rings import Ring, load_into, make_ring, release
from kernels.algorithms.flash3.work import (
    end_full_tile,
    end_visited_tile,
    first_full_tile,
    first_visited_tile,
)
from kernels.algorithms.flash3_backward.shared import barrier, buffer_of, make_barriers
from kernels.algorithms.flash3_backward.work import last_tiles_first
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

SIZES = ("q_heads", "group_size", "heads_in_turn", "padded_rows", "q_len", "kv_len", "left", "right")
"""Arguments that are sizes: none is compiled in, so that one compiled kernel serves every shape."""


class Item(NamedTuple):
    """A query tile of one head, and the key tiles that it visits."""

    batch_head: gl.tensor
    batch: gl.tensor
    head: gl.tensor
    first_q: gl.tensor
    first: gl.tensor
    end: gl.tensor
    """Key tiles [first, end) are visited; there may be none."""
    first_full: gl.tensor
    end_full: gl.tensor
    """Key tiles [first_full, end_full) need no mask."""


class Numbers(NamedTuple):
    """lse in base 2 and D, with padded_rows numbers per head."""

    lse: gl.tensor
    delta: gl.tensor
    padded_rows: gl.tensor


class Descriptors(NamedTuple):
    """Tensor descriptors; those of Q, dO and dQ are of the rows of one warpgroup."""

    q: gl.tensor
    do: gl.tensor
    k: gl.tensor
    v: gl.tensor
    dq: gl.tensor


class Shared(NamedTuple):
    """Q and dO, which stay, each with a barrier per warpgroup; K and V, which are streamed."""

    q: gl.shared_memory_descriptor
    do: gl.shared_memory_descriptor
    q_full: gl.shared_memory_descriptor
    do_full: gl.shared_memory_descriptor
    k: Ring
    v: Ring


@gluon.jit
def take_query_tile(q_heads, heads_in_turn, band, FIXED: gl.constexpr):
    """The item of this program: in a head, from the last query tile down."""
    BLOCK_M: gl.constexpr = FIXED.BLOCK_M
    BLOCK_N: gl.constexpr = FIXED.BLOCK_N
    q_tiles = gl.cdiv(band.q_len, BLOCK_M)
    all_heads = gl.num_programs(0) // q_tiles
    batch_head, q_tile = last_tiles_first(gl.program_id(0), heads_in_turn, q_tiles, all_heads)
    batch = batch_head // q_heads
    first = first_visited_tile(q_tile, band, BLOCK_M, BLOCK_N)
    end = end_visited_tile(q_tile, band, BLOCK_M, BLOCK_N)
    first_full = first_full_tile(q_tile, band, BLOCK_M, BLOCK_N)
    end_full = end_full_tile(q_tile, band, BLOCK_M, BLOCK_N)
    head = batch_head - batch * q_heads
    return Item(batch_head, batch, head, q_tile * BLOCK_M, first, end, first_full, end_full)


@gluon.jit
def make_shared(descs, FIXED: gl.constexpr):
    """All of it."""
    shape: gl.constexpr = descs.q.block_type.shape
    TILES: gl.constexpr = [2, shape[0], shape[1], shape[2], shape[3]]
    q = gl.allocate_shared_memory(descs.q.dtype, TILES, descs.q.layout)
    do = gl.allocate_shared_memory(descs.do.dtype, TILES, descs.do.layout)
    q_full, do_full = make_barriers(2, 1), make_barriers(2, 1)
    return Shared(q, do, q_full, do_full, make_ring(FIXED.STAGES, 2, descs.k), make_ring(1, 2, descs.v))


@gluon.jit
def arrived(ring, step, exists, SLOTS: gl.constexpr, FIXED: gl.constexpr):
    """The tile of this step, (BLOCK_N, BLOCK_D), once it is there; not waited for if it does not exist."""
    slot = step % SLOTS
    mbarrier.wait(ring.full.index(slot), (step // SLOTS) & 1, pred=exists)
    return ring.buffers.index(slot).reshape([FIXED.BLOCK_N, FIXED.BLOCK_D])


@gluon.jit
def row_probabilities(
    scores, lse, first_q, item, kv_tile, band, scale_log2, FIXED: gl.constexpr, LAYOUT: gl.constexpr
):
    """P (ROWS, BLOCK_N) from S and lse in base 2. Rows that see no key have lse = +inf, hence P = 0."""
    p = gl.exp2(scores * scale_log2 - lse[:, None])
    if FIXED.BOUND_LEFT or FIXED.BOUND_RIGHT or FIXED.RAGGED:
        is_cut = (kv_tile < item.first_full) | (kv_tile >= item.end_full)
        if is_cut:
            keys = kv_tile * FIXED.BLOCK_N + gl.arange(0, FIXED.BLOCK_N, layout=gl.SliceLayout(0, LAYOUT))
            rows = first_q + gl.arange(0, FIXED.ROWS, layout=gl.SliceLayout(1, LAYOUT))
            diagonal = rows + (band.kv_len - band.q_len)
            if FIXED.BOUND_RIGHT:
                p = gl.where(keys[None, :] <= (diagonal + band.right)[:, None], p, 0.0)
            if FIXED.BOUND_LEFT:
                p = gl.where(keys[None, :] >= (diagonal - band.left)[:, None], p, 0.0)
            if FIXED.RAGGED:
                p = gl.where((keys < band.kv_len)[None, :], p, 0.0)
    return p


@gluon.jit
def sum_dq(GROUP: gl.constexpr, descs, shared, numbers, item, band, scale, scale_log2, FIXED: gl.constexpr):
    """dQ of the rows from GROUP * ROWS on of the query tile."""
    ROWS: gl.constexpr = FIXED.ROWS
    BLOCK_D: gl.constexpr = FIXED.BLOCK_D
    STAGES: gl.constexpr = FIXED.STAGES
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], instr_shape=[16, FIXED.BLOCK_N, 16])
    ACC_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], instr_shape=[16, BLOCK_D, 16])
    DS_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, ACC_LAYOUT, 2)
    q = buffer_of(shared.q, GROUP).reshape([ROWS, BLOCK_D])
    first_q = item.first_q + GROUP * ROWS
    rows = first_q + gl.arange(0, ROWS, layout=gl.SliceLayout(1, S_LAYOUT))
    exist = rows < numbers.padded_rows  # the last query tile may be half a tile too long
    of_head = item.batch_head.to(gl.int64) * numbers.padded_rows
    lse = gl.load(numbers.lse + of_head + rows, mask=exist, other=float("inf"))
    delta = gl.load(numbers.delta + of_head + rows, mask=exist, other=0.0)
    dq = gl.zeros([ROWS, BLOCK_D], gl.float32, ACC_LAYOUT)
    steps = item.end - item.first
    if steps > 0:
        mbarrier.wait(shared.q_full.index(GROUP), 0)
        mbarrier.wait(shared.do_full.index(GROUP), 0)
    k = arrived(shared.k, 0, steps > 0, STAGES, FIXED)
    scores = issue_dots(q, k, S_LAYOUT)
    scores = warpgroup_mma_wait(0, deps=[scores])
    for step in range(steps):
        q = buffer_of(shared.q, GROUP).reshape([ROWS, BLOCK_D])
        do = buffer_of(shared.do, GROUP).reshape([ROWS, BLOCK_D])
        v = arrived(shared.v, step, True, 1, FIXED)
        dp = issue_dots(do, v, S_LAYOUT)
        p = row_probabilities(
            scores, lse, first_q, item, item.first + step, band, scale_log2, FIXED, S_LAYOUT
        )
        dp = warpgroup_mma_wait(0, deps=[dp])
        release(shared.v, step, 1)
        ds = gl.convert_layout((p * (dp - delta[:, None])).to(descs.dq.dtype), DS_LAYOUT)
        k = shared.k.buffers.index(step % STAGES).reshape([FIXED.BLOCK_N, BLOCK_D])
        dq = warpgroup_mma(ds, k, dq, is_async=True)
        next_k = arrived(shared.k, step + 1, step + 1 < steps, STAGES, FIXED)
        scores = issue_dots(q, next_k, S_LAYOUT)
        dq, ds = warpgroup_mma_wait(1, deps=[dq, ds])
        release(shared.k, step, STAGES)
        scores = warpgroup_mma_wait(0, deps=[scores])  # the last ones are of a tile that does not exist
    barrier()  # all warps have read Q, in whose place dQ is written
    buffer = shared.q.index(GROUP)
    buffer.reshape([ROWS, BLOCK_D]).store((dq * scale).to(descs.dq.dtype))
    fence_async_shared()
    barrier()
    tma.async_copy_shared_to_global(descs.dq, [item.batch, item.head, first_q, 0], buffer)
    tma.store_wait(0)


@gluon.jit
def load_tiles(descs, shared, group_size, item, FIXED: gl.constexpr):
    """Load Q and dO of the item, and its key tiles."""
    STAGES: gl.constexpr = FIXED.STAGES
    if item.first < item.end:
        for group in gl.static_range(2):
            at = [item.batch, item.head, item.first_q + group * FIXED.ROWS, 0]
            mbarrier.expect(shared.q_full.index(group), descs.q.block_type.nbytes)
            tma.async_copy_global_to_shared(descs.q, at, shared.q_full.index(group), shared.q.index(group))
        kv_head = item.head // group_size
        for group in gl.static_range(2):
            at = [item.batch, item.head, item.first_q + group * FIXED.ROWS, 0]
            mbarrier.expect(shared.do_full.index(group), descs.do.block_type.nbytes)
            tma.async_copy_global_to_shared(descs.do, at, shared.do_full.index(group), shared.do.index(group))
        for kv_tile in range(item.first, item.end):
            step = kv_tile - item.first
            row = kv_tile * FIXED.BLOCK_N
            load_into(shared.k, descs.k, item.batch, kv_head, row, step, STAGES, None, 0, 0)
            load_into(shared.v, descs.v, item.batch, kv_head, row, step, 1, None, 0, 0)


@gluon.jit(do_not_specialize=SIZES)
def _attn_bwd_hopper_dq(
    q_desc, do_desc, k_desc, v_desc, dq_desc, lse_ptr, delta_ptr, scale, scale_log2, q_heads,
    group_size, heads_in_turn, padded_rows, q_len, kv_len, left, right, FIXED: gl.constexpr,
):  # fmt: skip
    """dQ of one query tile of one head. lse (in base 2) and D have padded_rows rows per query head."""
    band = Band(q_len, kv_len, left, right)
    descs = Descriptors(q_desc, do_desc, k_desc, v_desc, dq_desc)
    shared = make_shared(descs, FIXED)
    fence_async_shared()
    item = take_query_tile(q_heads, heads_in_turn, band, FIXED)
    numbers = Numbers(lse_ptr, delta_ptr, padded_rows)
    gl.warp_specialize(
        [
            (sum_dq, (0, descs, shared, numbers, item, band, scale, scale_log2, FIXED)),
            (sum_dq, (1, descs, shared, numbers, item, band, scale, scale_log2, FIXED)),
            (load_tiles, (descs, shared, group_size, item, FIXED)),
        ],
        [4, 1],
        [FIXED.COMPUTE_REGISTERS, FIXED.LOAD_REGISTERS],
    )
