"""A warpgroup that computes: it takes 64 rows of one query tile after another."""

from kernels.algorithms.flash3.entry import WARPGROUP
from kernels.algorithms.flash3.mask import mask_scores
from kernels.algorithms.flash3.output import write_out
from kernels.algorithms.flash3.products import await_values, first_scores, issue_both, last_values
from kernels.algorithms.flash3.recording import record_step
from kernels.algorithms.flash3.softmax import join_sums, row_sums, softmax_step
from kernels.algorithms.flash3.work import next_unit, take_item
from kernels.primitives.marks import lane_of, mark, mark_numbers

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.language.extra.cuda import globaltimer

MASKED, HAS_O, HAS_P, WRITES, WROTE = mark_numbers(WARPGROUP, "masked", "has O", "has P", "writes", "wrote")
ASKS_Q, HAS_Q = mark_numbers(WARPGROUP, "asks Q", "has Q")


@gluon.jit
def operand_of(buffer, FIXED: gl.constexpr, LAYOUT: gl.constexpr):
    """Q of a warpgroup as its products read it: from registers, or where it lies in shared memory."""
    q = buffer.reshape([FIXED.ROWS, FIXED.BLOCK_D])
    if FIXED.Q_IN_REGISTERS:
        q = q.load(gl.DotOperandLayout(0, LAYOUT, 2))
    return q


@gluon.jit
def attend(GROUP: gl.constexpr, descs, rings, o_buffers, beside, band, work, FIXED: gl.constexpr):
    """Attend for ROWS rows, from row GROUP * ROWS on, of every query tile of this program."""
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], instr_shape=[16, FIXED.BLOCK_N, 16])
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], instr_shape=[16, FIXED.BLOCK_D, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, 2)
    ROW_LAYOUT: gl.constexpr = gl.SliceLayout(1, S_LAYOUT)
    O_ROW_LAYOUT: gl.constexpr = gl.SliceLayout(1, O_LAYOUT)
    DTYPE: gl.constexpr = descs.o.dtype
    ROWS: gl.constexpr = FIXED.ROWS
    BLOCK_D: gl.constexpr = FIXED.BLOCK_D
    o_buffer = o_buffers.index(GROUP)
    q_heads = work.q_heads.number

    lane = lane_of(beside.trace, GROUP) if FIXED.LANES else None
    unit = gl.program_id(0)
    items, step = 0, 0
    item = take_item(unit, work, band, GROUP, FIXED)
    mark(lane, step, ASKS_Q)
    mbarrier.wait(rings.q.full.index(GROUP), 0)
    mark(lane, step, HAS_Q)
    if FIXED.TRACE:
        start = globaltimer()
    q = operand_of(rings.q.buffers.index(GROUP), FIXED, S_LAYOUT)
    scores = first_scores(GROUP, q, rings, step, lane, step, FIXED, S_LAYOUT)
    done_m = gl.full([ROWS], float("-inf"), gl.float32, ROW_LAYOUT)
    done_l = gl.zeros([ROWS], gl.float32, ROW_LAYOUT)
    scores = mask_scores(scores, item, item.first, band, FIXED, S_LAYOUT)
    mark(lane, step, HAS_O)  # (there is none before it: its softmax begins)
    first_p, m, l, alpha = softmax_step(scores, done_m, beside.scale_log2)
    mark(lane, step, HAS_P)
    if FIXED.TRACE:
        record_step(
            beside, item, item.first, m, row_sums(l, m), alpha, start, work, band, descs.o, GROUP, FIXED
        )
    p = gl.convert_layout(first_p.to(DTYPE), P_LAYOUT)
    acc = gl.zeros([ROWS, BLOCK_D], gl.float32, O_LAYOUT)
    adds = unit < 0  # false: P V of an item's first tile starts its sum
    begins = unit < 0
    from_tile, to_tile = item.first + 1, item.end
    done_batch, done_head, done_q = 0, 0, 0  # (not the item: Triton would not see it change in the loop)
    more = True
    while more:
        # Two rounds per item: its first key tile, beside the last P V of the item before it; then the rest.
        q_slot = (items % FIXED.Q_STAGES) * FIXED.GROUPS + GROUP
        q = operand_of(rings.q.buffers.index(q_slot), FIXED, S_LAYOUT)
        for kv_tile in range(from_tile, to_tile):
            step += 1
            if FIXED.TRACE:
                start = globaltimer()
            factor = gl.convert_layout(alpha, O_ROW_LAYOUT)
            scores, acc = issue_both(GROUP, q, p, acc, adds, factor, rings, step, lane, step, FIXED, S_LAYOUT)
            scores = mask_scores(scores, item, kv_tile, band, FIXED, S_LAYOUT)
            mark(lane, step, MASKED)
            acc = await_values(GROUP, p, acc, rings, step, lane, step, FIXED)
            # [row max]
            new_p, m, sums, alpha = softmax_step(scores, m, beside.scale_log2)
            # [rescale]
            l = join_sums(l, alpha, sums)
            # [end]
            mark(lane, step, HAS_P)
            if FIXED.TRACE:
                record_step(
                    beside, item, kv_tile, m, row_sums(l, m), alpha, start, work, band, descs.o, GROUP, FIXED
                )
            p = gl.convert_layout(new_p.to(DTYPE), P_LAYOUT)
            adds = begins == False  # noqa: E712 (a tensor)
        if begins:
            mark(lane, step, WRITES)
            write_out(
                acc, done_m, done_l, o_buffer, descs.o, beside.lse,
                done_batch, done_head, q_heads, done_q, band, FIXED,
            )  # fmt: skip
            mark(lane, step, WROTE)
            from_tile = item.first + 1
            to_tile = item.end
            begins = unit < 0
        else:
            mbarrier.arrive(rings.q.empty.index(q_slot))
            done_batch, done_head, done_q, done_m = item.batch, item.head, item.first_q, m
            done_l = row_sums(l, m)
            items += 1
            mark(lane, step + 1, ASKS_Q)
            unit = next_unit(unit, items, rings, work, GROUP, FIXED)
            more = unit < work.units
            if more:
                item = take_item(unit, work, band, GROUP, FIXED)
                next_slot = (items % FIXED.Q_STAGES) * FIXED.GROUPS + GROUP
                mbarrier.wait(rings.q.full.index(next_slot), (items // FIXED.Q_STAGES) & 1)
                mark(lane, step + 1, HAS_Q)
            m = gl.full([ROWS], float("-inf"), gl.float32, ROW_LAYOUT)
            l = gl.zeros_like(l)
            from_tile = item.first
            to_tile = item.first + 1
            begins = more
    factor = gl.convert_layout(alpha, O_ROW_LAYOUT)
    acc = last_values(p, acc, adds, factor, rings, step, lane, step + 1, FIXED)
    mark(lane, step + 1, WRITES)
    write_out(
        acc, done_m, done_l, o_buffer, descs.o, beside.lse,
        done_batch, done_head, q_heads, done_q, band, FIXED,
    )  # fmt: skip
    tma.store_wait(0)
    mark(lane, step + 1, WROTE)
