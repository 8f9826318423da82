"""The matrix products of a warpgroup: asynchronous, and marked if lanes are recorded."""

from kernels.algorithms.flash3.entry import WARPGROUP
from kernels.algorithms.flash3.rings import release, wait_for
from kernels.algorithms.flash3.turns import await_turn, end_turn
from kernels.primitives.marks import mark, mark_numbers

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait

START, RESCALED, ASKS_K, HAS_K = mark_numbers(WARPGROUP, "start", "rescaled", "asks K", "has K")
ASKS_V, HAS_V, HAS_S, HAS_O = mark_numbers(WARPGROUP, "asks V", "has V", "has S", "has O")


@gluon.jit
def add_columns(dots, a, b, BEGIN: gl.constexpr):
    """Issue dots + a @ b^T of the columns [BEGIN, 2 BEGIN): a slice has a power of two of them."""
    columns_of_b = b.slice(BEGIN, BEGIN, 1).permute((1, 0))
    return warpgroup_mma(a.slice(BEGIN, BEGIN, 1), columns_of_b, dots, is_async=True)


@gluon.jit
def issue_dots(a, b, LAYOUT: gl.constexpr, low=None):
    """Issue a @ b^T: (rows of a, rows of b), float32. `low`: the first columns of a, in registers.

    They come first: as the last ones, they made Q K^T of head_dim 256 2 % slower (H200).
    """
    ROWS: gl.constexpr = a.shape[0]
    COLUMNS: gl.constexpr = b.shape[0]
    zeros = gl.zeros([ROWS, COLUMNS], gl.float32, LAYOUT)
    if low is None:
        return warpgroup_mma(a, b.permute((1, 0)), zeros, use_acc=False, is_async=True)
    else:
        LOW: gl.constexpr = low.shape[1]
        dots = warpgroup_mma(low, b.slice(0, LOW, 1).permute((1, 0)), zeros, use_acc=False, is_async=True)
        for doubled in gl.static_range(3):
            if LOW << doubled < a.shape[1]:
                dots = add_columns(dots, a, b, LOW << doubled)
        return dots


@gluon.jit
def issue_scores(q, rings, step, lane, turn, FIXED: gl.constexpr, LAYOUT: gl.constexpr):
    """Issue Q K^T of this step's key tile: (ROWS, BLOCK_N), float32."""
    mark(lane, turn, ASKS_K)
    # [load K]
    k = wait_for(rings.k, step, FIXED.STAGES).reshape([FIXED.BLOCK_N, FIXED.BLOCK_D])
    mark(lane, turn, HAS_K)
    # [QK^T]
    low = None
    if FIXED.WIDE:
        low, q = q
    return issue_dots(q, k, LAYOUT, low)


@gluon.jit
def issue_values(p, acc, adds, rings, step, lane, turn, FIXED: gl.constexpr):
    """Issue acc + P V of this step's key tile, or P V alone if `adds` is false: (ROWS, BLOCK_D), float32."""
    BLOCK_N: gl.constexpr = FIXED.BLOCK_N
    BLOCK_D: gl.constexpr = FIXED.BLOCK_D
    mark(lane, turn, ASKS_V)
    # [load V]
    v = wait_for(rings.v, step, FIXED.STAGES).reshape([BLOCK_N, BLOCK_D])
    mark(lane, turn, HAS_V)
    # [PV]
    return warpgroup_mma(p, v, acc, use_acc=adds, is_async=True)


@gluon.jit
def first_scores(GROUP: gl.constexpr, q, rings, step, lane, turn, FIXED: gl.constexpr, LAYOUT: gl.constexpr):
    """Q K^T of a key tile, with nothing of this warpgroup beside it."""
    await_turn(rings.turns, step, GROUP)
    scores = issue_scores(q, rings, step, lane, turn, FIXED, LAYOUT)
    end_turn(rings.turns, "issued", GROUP, FIXED)
    scores = warpgroup_mma_wait(0, deps=[scores])
    end_turn(rings.turns, "scores", GROUP, FIXED)
    end_turn(rings.turns, "done", GROUP, FIXED)
    mark(lane, turn, HAS_S)
    release(rings.k, step, FIXED.STAGES)
    return scores


@gluon.jit
def issue_both(
    GROUP: gl.constexpr,
    q,
    p,
    acc,
    adds,
    factor,
    rings,
    step,
    lane,
    turn,
    FIXED: gl.constexpr,
    LAYOUT: gl.constexpr,
):
    """Q K^T of this step's key tile, and acc after P V of the one before, which is still under way."""
    mark(lane, turn, START)
    # [rescale]
    acc = acc * factor[:, None]
    # [end]
    mark(lane, turn, RESCALED)
    await_turn(rings.turns, step, GROUP)
    scores = issue_scores(q, rings, step, lane, turn, FIXED, LAYOUT)
    acc = issue_values(p, acc, adds, rings, step - 1, lane, turn, FIXED)
    end_turn(rings.turns, "issued", GROUP, FIXED)
    # [QK^T]
    scores = warpgroup_mma_wait(1, deps=[scores])
    end_turn(rings.turns, "scores", GROUP, FIXED)
    mark(lane, turn, HAS_S)
    release(rings.k, step, FIXED.STAGES)
    # [end]
    return scores, acc


@gluon.jit
def await_values(GROUP: gl.constexpr, p, acc, rings, step, lane, turn, FIXED: gl.constexpr):
    """acc after P V of the step before this one, which was issued beside Q K^T.

    It comes before softmax, which could run beside P V: written after softmax, ptxas moves the wait up to
    here. Held back there by a barrier, the kernel was from 17 % slower to 1 % faster (H200, twelve cells).
    """
    acc, p = warpgroup_mma_wait(0, deps=[acc, p])  # p as well: its registers are read until then
    end_turn(rings.turns, "done", GROUP, FIXED)
    mark(lane, turn, HAS_O)
    release(rings.v, step - 1, FIXED.STAGES)
    return acc


@gluon.jit
def last_values(p, acc, adds, factor, rings, step, lane, turn, FIXED: gl.constexpr):
    """acc after P V of this step's key tile, with nothing beside it."""
    mark(lane, turn, START)
    acc = acc * factor[:, None]
    mark(lane, turn, RESCALED)
    acc = issue_values(p, acc, adds, rings, step, lane, turn, FIXED)
    acc, p = warpgroup_mma_wait(0, deps=[acc, p])
    mark(lane, turn, HAS_O)
    return acc
