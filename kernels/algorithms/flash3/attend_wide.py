"""A warpgroup that computes with head_dim over 128: it takes 64 rows of one query tile after another.

Its part of O takes 128 registers of a thread, and K and V the shared memory. So one query tile is there at a
time, O leaves by way of the place of Q, and nothing overlaps from one query tile to the next. The other
warpgroup computes meanwhile.
"""

from kernels.algorithms.flash3.entry import WARPGROUP
from kernels.algorithms.flash3.mask import mask_scores
from kernels.algorithms.flash3.output import barrier, write_out
from kernels.algorithms.flash3.products import await_values, first_scores, issue_both, last_values
from kernels.algorithms.flash3.recording import record_step
from kernels.algorithms.flash3.rings import release, wait_for
from kernels.algorithms.flash3.turns import await_turn, end_turn
from kernels.algorithms.flash3.work import next_unit, take_item
from kernels.primitives.marks import lane_of, mark, mark_numbers
from kernels.primitives.online_softmax import finite_or_zero, online_softmax

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.language.extra.cuda import globaltimer

MASKED, HAS_O, HAS_P, WRITES, WROTE = mark_numbers(WARPGROUP, "masked", "has O", "has P", "writes", "wrote")
ASKS_Q, HAS_Q = mark_numbers(WARPGROUP, "asks Q", "has Q")


@gluon.jit
def pass_over(GROUP: gl.constexpr, rings, step, FIXED: gl.constexpr):
    """Release K and V of a key tile that is hidden from the rows of this warpgroup.

    Not before they have arrived: until then the slot may still be that of the tile before. It sets no marks,
    and passes its turn on.
    """
    await_turn(rings.turns, step, GROUP)
    end_turn(rings.turns, "issued", GROUP, FIXED)
    wait_for(rings.k, step, FIXED.STAGES)
    release(rings.k, step, FIXED.STAGES)
    wait_for(rings.v, step, FIXED.STAGES)
    release(rings.v, step, FIXED.STAGES)


@gluon.jit
def attend_wide(GROUP: gl.constexpr, descs, rings, beside, band, work, FIXED: gl.constexpr):
    """Attend for ROWS rows, from row GROUP * ROWS on, of every query tile of this program."""
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], instr_shape=[16, FIXED.BLOCK_N, 16])
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], instr_shape=[16, FIXED.BLOCK_D, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, 2)
    ROW_LAYOUT: gl.constexpr = gl.SliceLayout(1, S_LAYOUT)
    O_ROW_LAYOUT: gl.constexpr = gl.SliceLayout(1, O_LAYOUT)
    DTYPE: gl.constexpr = descs.o.dtype
    ROWS: gl.constexpr = FIXED.ROWS
    BLOCK_D: gl.constexpr = FIXED.BLOCK_D
    q_buffer = rings.q.buffers.index(GROUP)
    whole_q = q_buffer.reshape([ROWS, BLOCK_D])

    lane = lane_of(beside.trace, GROUP) if FIXED.LANES else None
    unit = gl.program_id(0)
    items, step = 0, 0
    mark(lane, 0, ASKS_Q)
    while unit < work.units:
        item = take_item(unit, work, band, GROUP, FIXED)
        turn = step + items  # an item has a turn more than steps
        mbarrier.wait(rings.q.full.index(GROUP), items & 1)
        mark(lane, turn, HAS_Q)
        # A half of Q stays in registers, so that shared memory is asked for 112 bytes per cycle instead of
        # 128, which is all it has: 1.2 to 2.7 % faster (H200, 4 cells). More columns are spilled.
        q = (whole_q.slice(0, BLOCK_D // 2, 1).load(gl.DotOperandLayout(0, S_LAYOUT, 2)), whole_q)
        if FIXED.TRACE:
            start = globaltimer()
        scores = first_scores(GROUP, q, rings, step, lane, turn, FIXED, S_LAYOUT)
        m = gl.full([ROWS], float("-inf"), gl.float32, ROW_LAYOUT)
        l = gl.zeros([ROWS], gl.float32, ROW_LAYOUT)
        scores = mask_scores(scores, item, item.first, band, FIXED, S_LAYOUT)
        mark(lane, turn, HAS_O)  # (there is none before it: its softmax begins)
        first_p, m, l, alpha = online_softmax(scores, m, l, beside.scale_log2)
        mark(lane, turn, HAS_P)
        if FIXED.TRACE:
            record_step(beside, item, item.first, m, l, alpha, start, work, band, descs.o, GROUP, FIXED)
        p = gl.convert_layout(first_p.to(DTYPE), P_LAYOUT)
        acc = gl.zeros([ROWS, BLOCK_D], gl.float32, O_LAYOUT)
        # If only the last key tiles need the mask, they have a loop of their own: with one loop for all, and
        # a branch in it, a causal call with 4,096 or 16,384 keys took 5 or 6 % longer (H200).
        MASKS_LAST: gl.constexpr = (FIXED.BOUND_RIGHT or FIXED.RAGGED) and not FIXED.BOUND_LEFT
        from_tile, to_tile = item.first + 1, item.own_end
        if MASKS_LAST:
            to_tile = gl.minimum(gl.maximum(item.end_full, from_tile), to_tile)
        for MASKS in gl.static_range(2 if MASKS_LAST else 1):
            for kv_tile in range(from_tile, to_tile):
                step += 1
                turn += 1
                if FIXED.TRACE:
                    start = globaltimer()
                factor = gl.convert_layout(alpha, O_ROW_LAYOUT)
                scores, acc = issue_both(
                    GROUP, q, p, acc, True, factor, rings, step, lane, turn, FIXED, S_LAYOUT
                )
                if MASKS or FIXED.BOUND_LEFT:
                    scores = mask_scores(scores, item, kv_tile, band, FIXED, S_LAYOUT)
                mark(lane, turn, MASKED)
                acc = await_values(GROUP, p, acc, rings, step, lane, turn, FIXED)
                # [row max]
                new_p, m, l, alpha = online_softmax(scores, m, l, beside.scale_log2)
                # [end]
                mark(lane, turn, HAS_P)
                if FIXED.TRACE:
                    record_step(beside, item, kv_tile, m, l, alpha, start, work, band, descs.o, GROUP, FIXED)
                p = gl.convert_layout(new_p.to(DTYPE), P_LAYOUT)
            from_tile, to_tile = to_tile, item.own_end
            # Two halves in a register, as they are: else every tile swaps them, which takes 16 instructions.
            p = gl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [p], p.dtype, True, 2)
        turn += 1
        factor = gl.convert_layout(alpha, O_ROW_LAYOUT)
        acc = last_values(p, acc, True, factor, rings, step, lane, turn, FIXED)
        release(rings.v, step, FIXED.STAGES)
        step += 1
        for kv_tile in range(item.own_end, item.end):
            if FIXED.TRACE:
                start = globaltimer()
            pass_over(GROUP, rings, step, FIXED)
            if FIXED.TRACE:
                alpha = gl.exp2(m - finite_or_zero(m))
                record_step(beside, item, kv_tile, m, l, alpha, start, work, band, descs.o, GROUP, FIXED)
            step += 1
            turn += 1
        mark(lane, turn, WRITES)
        write_out(
            acc, m, l, q_buffer, descs.o, beside.lse,
            item.batch, item.head, work.q_heads.number, item.first_q, band, FIXED,
        )  # fmt: skip
        tma.store_wait(0)
        barrier()  # the warp that writes has waited
        mark(lane, turn, WROTE)
        mbarrier.arrive(rings.q.empty.index(GROUP))
        items += 1
        mark(lane, step + items, ASKS_Q)
        unit = next_unit(unit, items, rings, work, GROUP, FIXED)
