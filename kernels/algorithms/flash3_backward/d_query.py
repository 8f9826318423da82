"""dQ = dS K of a step, and its way into the float32 sum in device memory."""

from kernels.algorithms.flash3_backward.entry import QUERIES
from kernels.algorithms.flash3_backward.rows import place_in_sum
from kernels.primitives.marks import lane_of, mark, mark_numbers

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, warpgroup_mma, warpgroup_mma_wait

START, HAS_ALL_DS, HAS_DQ, ADDED_DQ = mark_numbers(QUERIES, *QUERIES.marks)


@gluon.jit
def issue_dq(shared, step, PART: gl.constexpr, FIXED: gl.constexpr):
    """Issue dS K of this step for the columns of part PART: (BLOCK_M, ROWS), float32."""
    ROWS: gl.constexpr = FIXED.ROWS
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], instr_shape=[16, ROWS, 16])
    # [dQ]
    ds_t = shared.ds.index(step % FIXED.STAGES)
    k = shared.k.index(0).reshape([FIXED.BLOCK_N, FIXED.BLOCK_D])
    BLOCK_M: gl.constexpr = FIXED.BLOCK_M
    zeros = gl.zeros([BLOCK_M, ROWS], gl.float32, LAYOUT)
    columns = k if FIXED.BLOCK_D == ROWS else k.slice(PART * ROWS, ROWS, 1)
    return warpgroup_mma(ds_t.permute((1, 0)), columns, zeros, use_acc=False, is_async=True)


@gluon.jit
def add_dq(dq, dq_sum, row, PART: gl.constexpr, FIXED: gl.constexpr):
    """Add a part of dQ, (BLOCK_M, ROWS), to its place in the sum, straight from registers.

    The sum has the order in which the threads hold dQ: see `rows.place_in_sum`.
    """
    ROWS: gl.constexpr = FIXED.ROWS
    PARTS: gl.constexpr = FIXED.BLOCK_D // ROWS
    gl.static_assert(FIXED.BLOCK_M == 64 and ROWS == 64, "the sum has blocks of 64 x 64")
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], instr_shape=[16, ROWS, 16])
    # [add dQ]
    rows = gl.arange(0, FIXED.BLOCK_M, layout=gl.SliceLayout(1, LAYOUT))[:, None]
    columns = gl.arange(0, ROWS, layout=gl.SliceLayout(0, LAYOUT))[None, :]
    of_part = dq_sum + ((row // ROWS).to(gl.int64) * PARTS + PART) * (ROWS * ROWS)
    first_of_four = (of_part + (place_in_sum(rows, columns) & ~3)).to(gl.int64)
    gl.inline_asm_elementwise(
        """{
            red.global.add.v4.f32 [$8], {$4, $5, $6, $7};
            mov.b32 $0, 0; mov.b32 $1, 0; mov.b32 $2, 0; mov.b32 $3, 0;
        }""",
        "=r,=r,=r,=r,f,f,f,f,l,l,l,l",
        [dq, first_of_four],
        dtype=gl.int32,
        is_pure=False,
        pack=4,
    )


@gluon.jit
def sum_dq(dq_sum, shared, item, lanes, FIXED: gl.constexpr):
    """A warpgroup that computes dQ of every step, and nothing else."""
    STAGES: gl.constexpr = FIXED.STAGES
    if item.first < item.end:
        mbarrier.wait(shared.kv_full.index(0), 0)
    lane = lane_of(lanes, 2) if lanes is not None else None
    step = 0
    for member in range(item.group_size):
        head = item.kv_head * item.group_size + member
        first_row = (item.batch * item.q_heads + head) * item.padded_rows
        for q_tile in range(item.first, item.end):
            mark(lane, step, START)
            mbarrier.wait(shared.ds_full.index(step % STAGES), (step // STAGES) & 1)
            mark(lane, step, HAS_ALL_DS)
            dq = issue_dq(shared, step, 0, FIXED)
            dq = warpgroup_mma_wait(0, deps=[dq])
            mark(lane, step, HAS_DQ)
            mbarrier.arrive(shared.ds_empty.index(step % STAGES))
            add_dq(dq, dq_sum, first_row + q_tile * FIXED.BLOCK_M, 0, FIXED)
            mark(lane, step, ADDED_DQ)
            step += 1
