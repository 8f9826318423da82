"""The mask inside a tile. `band` is a `kernels.problem.band.Band`.

A bound that hides no key is left out of the compiled code.
"""

from kernels.primitives.mods import pair_is_seen
from kernels.primitives.numbers import LOG2E
from kernels.primitives.tile_io import load_rows

import triton
import triton.language as tl


@triton.jit
def sees_a_key(offs_m, band):
    """Whether each query sees a key at all."""
    diagonal = offs_m + (band.kv_len - band.q_len)
    return (diagonal + band.right >= 0) & (diagonal - band.left < band.kv_len)


@triton.jit
def mask_scores(scores, offs_m, kv_tile, band, FIXED: tl.constexpr, own=None):
    """Scores (rows, BLOCK_N), with -inf for keys that do not exist or that the query does not see."""
    offs_n = kv_tile * FIXED.BLOCK_N + tl.arange(0, FIXED.BLOCK_N)
    diagonal = offs_m + (band.kv_len - band.q_len)
    visible = (offs_n < band.kv_len)[None, :]
    if FIXED.BOUND_RIGHT:
        visible = visible & (offs_n[None, :] <= diagonal[:, None] + band.right)
    if FIXED.BOUND_LEFT:
        visible = visible & (offs_n[None, :] >= diagonal[:, None] - band.left)
    if FIXED.PLANNED:
        visible &= pair_is_seen(offs_m, offs_n, own, band.kv_len, False, FIXED)
    return tl.where(visible, scores, float("-inf"))


@triton.jit
def mask_transposed(tile_t, offs_m, offs_n, band, FIXED: tl.constexpr, own=None):
    """Zero a (keys, queries) tile at the keys that a query does not see.

    Keys past the end need no mask: their rows of K are zero.
    """
    diagonal = offs_m + (band.kv_len - band.q_len)
    visible = (offs_n >= 0)[:, None]
    if FIXED.BOUND_RIGHT:
        visible = visible & (offs_n[:, None] <= diagonal[None, :] + band.right)
    if FIXED.BOUND_LEFT:
        visible = visible & (offs_n[:, None] >= diagonal[None, :] - band.left)
    if FIXED.PLANNED:
        visible &= pair_is_seen(offs_m, offs_n, own, band.kv_len, True, FIXED)
    return tl.where(visible, tile_t, 0.0)


@triton.jit
def load_lse(lse_ptr, offs_m, band, FIXED: tl.constexpr):
    """lse of the rows in base 2; +inf for rows that see no key or lie past the end, so that their P is 0."""
    lse = load_rows(lse_ptr, offs_m, band.q_len, float("inf")) * LOG2E
    if FIXED.BOUND_LEFT or FIXED.BOUND_RIGHT:
        lse = tl.where(sees_a_key(offs_m, band), lse, float("inf"))
    if FIXED.PLANNED:
        lse = tl.where(lse == float("-inf"), float("inf"), lse)
    return lse
