"""The warp that loads."""

from __future__ import annotations

from kernels.algorithms.flash3_backward.shared import load_into

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma


@gluon.jit
def load_tiles(descs, shared, item, FIXED: gl.constexpr):
    """Load K and V of the item, and its query tiles, head after head."""
    ROWS: gl.constexpr = FIXED.ROWS
    first_k = item.kv_tile * FIXED.BLOCK_N
    if item.first < item.end:
        k_full = shared.kv_full.index(0)
        v_full = shared.kv_full.index(1)
        mbarrier.expect(k_full, descs.k.block_type.nbytes)
        tma.async_copy_global_to_shared(descs.k, [item.batch, item.kv_head, first_k, 0], k_full, shared.k)
        mbarrier.expect(v_full, 2 * descs.v.block_type.nbytes)
        for group in gl.static_range(2):
            at = [item.batch, item.kv_head, first_k + group * ROWS, 0]
            tma.async_copy_global_to_shared(descs.v, at, v_full, shared.v.index(group))
    step = 0
    for member in range(item.group_size):
        head = item.kv_head * item.group_size + member
        for q_tile in range(item.first, item.end):
            load_into(shared.q, descs.q, descs.lse, item, head, q_tile, step, FIXED)
            load_into(shared.do, descs.do, descs.delta, item, head, q_tile, step, FIXED)
            step += 1
