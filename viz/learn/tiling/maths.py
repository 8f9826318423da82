"""Products in tiles: C = A B, attention without softmax, and with it. NumPy, float64, small matrices."""

import itertools
from dataclasses import dataclass

import numpy as np

from viz.learn.softmax.maths import Update, softmax

MODES = ("none", "own", "online")
"""What happens between the products: nothing; each tile's own softmax (wrong); the online softmax."""


class UnfitMatrices(ValueError):
    """The shapes of the matrices do not fit together; says which, and what would fit."""


@dataclass(frozen=True, eq=False)
class ProductStep:
    """One tile product C_ij += A_ik B_kj."""

    i: int
    j: int
    k: int
    partial: np.ndarray
    """A_ik B_kj"""
    result: np.ndarray
    elements_read: int
    """Elements of A and B read up to and with this step."""


def tiled_product(a: np.ndarray, b: np.ndarray, tile: int) -> tuple[ProductStep, ...]:
    """C = A B for (M, K), (K, N), tile by tile, each C_ij finished in turn. Raises UnfitMatrices."""
    if a.shape[1] != b.shape[0]:
        raise UnfitMatrices(
            f"A has {a.shape[1]} columns and B has {b.shape[0]} rows. "
            "A B needs as many columns of A as rows of B."
        )
    result, read, steps = np.zeros((a.shape[0], b.shape[1])), 0, []
    tile_counts = (tiles_of(length, tile) for length in (a.shape[0], b.shape[1], a.shape[1]))
    for i, j, k in itertools.product(*map(range, tile_counts)):
        a_tile, b_tile = a[span(i, tile), span(k, tile)], b[span(k, tile), span(j, tile)]
        partial = a_tile @ b_tile
        result[span(i, tile), span(j, tile)] += partial
        read += a_tile.size + b_tile.size
        steps.append(ProductStep(i, j, k, partial, result.copy(), read))
    return tuple(steps)


def span(index: int, tile: int) -> slice:
    """Rows or columns of tile `index`."""
    return slice(index * tile, (index + 1) * tile)


def tiles_of(length: int, tile: int) -> int:
    """How many tiles of `tile` rows cover `length`; the last may be short."""
    return -(-length // tile)


@dataclass(frozen=True, eq=False)
class AttentionStep:
    """Key tile j for query tile i. m, alpha and l are (rows of the tile,); only mode "online" uses them."""

    i: int
    j: int
    kv_tiles: int
    scores: np.ndarray
    """S_ij = scale Q_i K_j^T, (rows, keys)"""
    weights: np.ndarray
    """What is multiplied with V_j: S_ij itself, its own softmax, or exp(S_ij - m)."""
    m: np.ndarray
    alpha: np.ndarray
    l: np.ndarray
    output: np.ndarray
    """All of O if the loop ended here: for "online" the sum over the key tiles so far, divided by l."""

    @property
    def last_of_row(self) -> bool:
        """Whether this is the last key tile of its query tile."""
        return self.j == self.kv_tiles - 1


def tiled_attention(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, tile: int, mode: str
) -> tuple[AttentionStep, ...]:
    """Attention of query (M, d), key (N, d), value (N, e) in tiles of `tile` rows; `mode` is one of MODES.

    "none" is algorithm 2 of Chu, Liu and Lin 2026: O_i += (Q_i K_j^T) V_j. "own" normalises every tile alone
    and adds the results, which is not attention. "online" is FlashAttention-2 (Dao 2023, algorithm 1). Scores
    are scaled by 1 / sqrt(d). Raises UnfitMatrices if the shapes do not fit.
    """
    if query.shape[1] != key.shape[1]:
        raise UnfitMatrices(
            f"Q has {query.shape[1]} columns and K has {key.shape[1]}. "
            "A query and a key need the same length."
        )
    if len(key) != len(value):
        raise UnfitMatrices(f"K has {len(key)} rows and V has {len(value)}. Every key needs one value.")
    scale = 1.0 / np.sqrt(query.shape[1])
    output, steps = np.zeros((len(query), value.shape[1])), []
    kv_tiles = tiles_of(len(key), tile)
    for i in range(tiles_of(len(query), tile)):
        rows = query[span(i, tile)]
        m, l = np.full(len(rows), -np.inf), np.zeros(len(rows))
        accumulator = np.zeros((len(rows), value.shape[1]))
        for j in range(kv_tiles):
            scores = scale * rows @ key[span(j, tile)].T
            m_old, alpha = m, np.ones(len(rows))
            if mode == "online":
                m = np.maximum(m, scores.max(axis=1))
                weights, alpha = np.exp(scores - m[:, None]), np.exp(m_old - m)
            else:
                weights = scores if mode == "none" else softmax(scores)
            l = alpha * l + weights.sum(axis=1)
            accumulator = alpha[:, None] * accumulator + weights @ value[span(j, tile)]
            output[span(i, tile)] = accumulator / l[:, None] if mode == "online" else accumulator
            steps.append(AttentionStep(i, j, kv_tiles, scores, weights, m, alpha, l, output.copy()))
    return tuple(steps)


def first_row(steps: tuple[AttentionStep, ...], place: int) -> Update:
    """What step `place` of mode "online" did to the first row of its query tile."""
    step = steps[place]
    m, l = (steps[place - 1].m[0], steps[place - 1].l[0]) if step.j else (-np.inf, 0.0)
    return Update(step.scores[0], float(m), float(l), *map(float, (step.m[0], step.alpha[0], step.l[0])))
