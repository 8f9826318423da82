"""The warp that loads."""

from kernels.algorithms.flash3.entry import LOADS
from kernels.algorithms.flash3.rings import load_into
from kernels.algorithms.flash3.work import claim_next, of_item, take_item, tell_end, tell_unit
from kernels.primitives.marks import lane_of, mark_numbers, mark_tile

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

ASKS_K, ASKS_V, ASKS_Q = mark_numbers(LOADS, "asks K", "asks V", "asks Q 1")


@gluon.jit
def load_tiles(descs, rings, group_size, band, work, beside, FIXED: gl.constexpr):
    """Load the tiles of every item of this program.

    V of a tile is loaded after K of the next tile, because the products use them in that order. With wide
    tiles that holds within an item alone: the next one's Q has to wait until this one is done.
    """
    GROUPS: gl.constexpr = FIXED.GROUPS
    STAGES: gl.constexpr = FIXED.STAGES
    Q_SLOTS: gl.constexpr = FIXED.Q_STAGES * FIXED.GROUPS
    lane = lane_of(beside.trace, GROUPS) if FIXED.LANES else None
    unit = gl.program_id(0)
    items = 0
    step = 0
    batch = 0
    kv_head = 0
    row = 0
    while unit < work.units:
        tell_unit(rings, items, unit, FIXED)
        item = take_item(unit, work, band, 0, FIXED)
        # [load Q]
        turn = step + items if FIXED.WIDE else step  # as the warpgroups number their turns
        for group in gl.static_range(GROUPS):
            q_row = item.first_q + group * FIXED.ROWS
            place = items * GROUPS + group
            asks = ASKS_Q + 2 * group
            load_into(rings.q, descs.q, item.batch, item.head, q_row, place, Q_SLOTS, lane, turn, asks)
        # [end]
        no_v_with = item.first if FIXED.WIDE else -1
        for kv_tile in range(item.first, item.end):
            first_k = kv_tile * FIXED.BLOCK_N
            k_head = item.head // group_size
            mark_tile(lane, turn, of_item(item, work), kv_tile)
            # [load K]
            load_into(rings.k, descs.k, item.batch, k_head, first_k, step, STAGES, lane, turn, ASKS_K)
            # [load V]
            if (step > 0) & (kv_tile > no_v_with):
                load_into(rings.v, descs.v, batch, kv_head, row, step - 1, STAGES, lane, turn - 1, ASKS_V)
            # [end]
            batch = item.batch
            kv_head = k_head
            row = first_k
            step += 1
            turn += 1
        if FIXED.WIDE:
            load_into(rings.v, descs.v, batch, kv_head, row, step - 1, STAGES, lane, turn - 1, ASKS_V)
        items += 1
        unit = claim_next(unit, turn, beside, work, band, FIXED)
    if work.claims:
        tell_end(rings, items, unit, FIXED)
    if not FIXED.WIDE:
        load_into(rings.v, descs.v, batch, kv_head, row, step - 1, STAGES, lane, step - 1, ASKS_V)
