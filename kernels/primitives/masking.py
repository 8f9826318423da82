"""The mask inside a tile. `band` is a `kernels.problem.band.Band`.

A bound that hides no key is left out of the compiled code.
"""

from kernels.primitives.mods import pair_is_seen
from kernels.primitives.numbers import LOG2E
from kernels.primitives.tile_io import load_rows, positions_of

import triton
import triton.language as tl


@triton.jit
def sees_a_key(offs_m, band):
    """Whether each query sees a key at all."""
    diagonal = offs_m + (band.kv_len - band.q_len)
    return (diagonal + band.right >= 0) & (diagonal - band.left < band.kv_len)


@triton.jit
def mask_scores(scores, offs_m, kv_tile, band, FIXED: tl.constexpr, own=None, PART: tl.constexpr = 2):
    """Scores (rows, BLOCK_N), with -inf for keys that do not exist or that the query does not see.

    PART is that of `traversal.part_of_tiles`.
    """
    offs_n = positions_of(kv_tile, FIXED.BLOCK_N, tl.int32)
    diagonal = offs_m + (band.kv_len - band.q_len)
    if FIXED.BOUND_RIGHT or FIXED.RAGGED:
        last = offs_m * 0 + (band.kv_len - 1)
        if FIXED.BOUND_RIGHT:
            last = tl.minimum(diagonal + band.right, last)
        scores = tl.where(offs_n[None, :] <= last[:, None], scores, float("-inf"))
    if FIXED.BOUND_LEFT:
        scores = tl.where(offs_n[None, :] >= (diagonal - band.left)[:, None], scores, float("-inf"))
    if FIXED.PATTERN.PLANNED:
        seen = pair_is_seen(offs_m, kv_tile, own, band.kv_len, PART, False, FIXED)
        scores = tl.where(seen, scores, float("-inf"))
    return scores


@triton.jit
def mask_transposed(tile_t, q_tile, offs_n, band, FIXED: tl.constexpr, own=None, PART: tl.constexpr = 2):
    """Zero a (keys, queries) tile at the keys that a query does not see; PART as in `mask_scores`.

    Keys past the end need no mask: their rows of K are zero.
    """
    offs_m = positions_of(q_tile, FIXED.BLOCK_M, tl.int32)
    diagonal = offs_n - (band.kv_len - band.q_len)
    if FIXED.BOUND_RIGHT:
        tile_t = tl.where(offs_m[None, :] >= (diagonal - band.right)[:, None], tile_t, 0.0)
    if FIXED.BOUND_LEFT:
        tile_t = tl.where(offs_m[None, :] <= (diagonal + band.left)[:, None], tile_t, 0.0)
    if FIXED.PATTERN.PLANNED:
        seen = pair_is_seen(offs_n, q_tile, own, band.kv_len, PART, True, FIXED)
        tile_t = tl.where(seen, tile_t, 0.0)
    return tile_t


@triton.jit
def load_lse(lse_ptr, offs_m, band, FIXED: tl.constexpr, MASKED: tl.constexpr = True):
    """lse of the rows in base 2; +inf for rows that see no key or lie past the end, so that their P is 0.

    Without a mask every row sees a key.
    """
    lse = load_rows(lse_ptr, offs_m, band.q_len, float("inf")) * LOG2E
    if MASKED and (FIXED.BOUND_LEFT or FIXED.BOUND_RIGHT):
        lse = tl.where(sees_a_key(offs_m, band), lse, float("inf"))
    if MASKED and FIXED.PATTERN.PLANNED:
        lse = tl.where(lse == float("-inf"), float("inf"), lse)
    return lse
