"""The online softmax: one step for every kernel that has one. `# [name]` starts a phase of the tile step.

Milakov and Gimelshein 2018, algorithm 3, in tiles as in Dao 2023, algorithm 1.
"""

import triton
import triton.language as tl


@triton.jit
def finite_or_zero(m):
    """The row max as a shift: a row that has seen no key has m = -inf, and -inf - -inf would be NaN."""
    return tl.where(m == float("-inf"), 0.0, m)


@triton.jit
def share_of(part_lse, lse):
    """The share of a part of the keys in the row sum of all; 0 if the part has no visible key."""
    return tl.where(part_lse == float("-inf"), 0.0, tl.exp(part_lse - lse))


@triton.jit
def online_softmax(scores, m, l, scale_log2, loss=None):
    """One tile of scores (rows, keys) joins the state of its rows. Returns P, the new m and l, and alpha.

    m (rows,) is the row max in base-2 units and l (rows,) the row sum of exp2(score - m). alpha (rows,) is
    the factor that old sums, and the accumulator, have to be multiplied by. scale_log2 >= 0. If a `loss`
    (rows,) is given, the scores of a row are still that much too high.
    """
    # [row max]
    highest = tl.max(scores, axis=1)
    if loss is not None:
        highest -= loss
    m_new = tl.maximum(m, highest * scale_log2)
    shift = finite_or_zero(m_new)
    # [exponentials]
    if loss is None:
        p = tl.exp2(scores * scale_log2 - shift[:, None])
    else:
        p = tl.exp2(scores * scale_log2 - (shift + loss * scale_log2)[:, None])
    # [rescale]
    alpha = tl.exp2(m - shift)
    l = l * alpha + tl.sum(p, axis=1)
    # [end]
    return p, m_new, l, alpha
