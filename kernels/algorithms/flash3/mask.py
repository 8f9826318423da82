"""The mask of a warpgroup."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def columns_up_to(last, COUNT: gl.constexpr, LAYOUT: gl.constexpr):
    """(rows, COUNT): whether a column of a product, which has this layout, is at most `last` of its row.

    A thread has of each row the columns 8 i + 2 (thread % 4) + {0, 1}. If they are compared as they are, each
    takes a register, is computed before the loop and lives through it. So what differs between threads, bits
    1 and 2, is taken to the other side; the rest is known at compile time, and part of the instruction.
    """
    columns = gl.arange(0, COUNT, layout=gl.SliceLayout(0, LAYOUT))[None, :]
    return (columns & ~6) <= last[:, None] - (columns & 6)


@gluon.jit
def mask_scores(scores, item, kv_tile, band, FIXED: gl.constexpr, LAYOUT: gl.constexpr):
    """The scores of one tile, with -inf for each key that a row does not see."""
    BLOCK_N: gl.constexpr = FIXED.BLOCK_N
    ROWS: gl.constexpr = FIXED.ROWS
    # [mask]
    if FIXED.BOUND_LEFT or FIXED.BOUND_RIGHT or FIXED.RAGGED:
        # A branch: with a second loop, results at head_dim 64 were wrong (ptxas 12.8, which spills there).
        if (kv_tile < item.first_full) | (kv_tile >= item.end_full):
            ROW: gl.constexpr = gl.SliceLayout(1, LAYOUT)
            shift_to_diagonal = band.kv_len - band.q_len - kv_tile * BLOCK_N
            diagonal = item.first_q + gl.arange(0, ROWS, layout=ROW) + shift_to_diagonal
            last = gl.full([ROWS], band.kv_len - 1 - kv_tile * BLOCK_N, gl.int32, ROW)
            if FIXED.BOUND_RIGHT:
                last = gl.minimum(diagonal + band.right, last)
            scores = gl.where(columns_up_to(last, BLOCK_N, LAYOUT), scores, float("-inf"))
            if FIXED.BOUND_LEFT:
                hidden = columns_up_to(diagonal - band.left - 1, BLOCK_N, LAYOUT)
                scores = gl.where(hidden, float("-inf"), scores)
    # [end]
    return scores
