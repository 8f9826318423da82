"""The warp that loads."""

from kernels.algorithms.flash3_backward.entry import LOADS
from kernels.algorithms.flash3_backward.shared import load_into
from kernels.primitives.marks import lane_of, mark_numbers, mark_tile

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

ASKS_Q, ASKS_DO = mark_numbers(LOADS, "asks Q", "asks dO")


@gluon.jit
def load_tiles(descs, shared, item, band, lanes, FIXED: gl.constexpr):
    """Load K and V of the item, and its query tiles, head after head."""
    ROWS: gl.constexpr = FIXED.ROWS
    first_k = item.kv_tile * FIXED.BLOCK_N
    # [load K, V]
    if item.first < item.end:
        k_full = shared.kv_full.index(0)
        v_full = shared.kv_full.index(1)
        mbarrier.expect(k_full, descs.k.block_type.nbytes)
        tma.async_copy_global_to_shared(
            descs.k, [item.batch, item.kv_head, first_k, 0], k_full, shared.k.index(0)
        )
        mbarrier.expect(v_full, 2 * descs.v.block_type.nbytes)
        for group in gl.static_range(2):
            at = [item.batch, item.kv_head, first_k + group * ROWS, 0]
            tma.async_copy_global_to_shared(descs.v, at, v_full, shared.v.index(group))
    # [end]
    LANE: gl.constexpr = 3 if FIXED.DQ_WARPGROUP else 2
    lane = lane_of(lanes, LANE) if lanes is not None else None
    q_tiles = gl.cdiv(band.q_len, FIXED.BLOCK_M)
    step = 0
    for member in range(item.group_size):
        head = item.kv_head * item.group_size + member
        for q_tile in range(item.first, item.end):
            mark_tile(lane, step, (item.batch * item.q_heads + head) * q_tiles + q_tile, item.kv_tile)
            # [load Q, lse]
            load_into(shared.q, descs.q, descs.lse, item, head, q_tile, step, lane, ASKS_Q, FIXED)
            # [load dO, D]
            load_into(shared.do, descs.do, descs.delta, item, head, q_tile, step, lane, ASKS_DO, FIXED)
            # [end]
            step += 1
