"""Dividing O by the row sum at every key tile, or once at the end: operations outside the products, counted.

At every step: FlashAttention-1, and algorithm 3 of Chu, Liu and Lin 2026. At the end: Dao 2023, section 3.1.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from kernels.lessons.tiling import check_attention_shapes, span, tiles_of

KINDS = ("maxima", "subtractions", "exponentials", "additions", "multiplications", "divisions")


@dataclass(frozen=True, eq=False)
class DivisionRun:
    """What one run counted, by kind of operation, and its O (rows, features of V)."""

    operations: dict[str, int]
    output: np.ndarray

    @property
    def total(self) -> int:
        """Operations of all kinds."""
        return sum(self.operations.values())


def tiled_softmax(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, tile: int, every_step: bool
) -> DivisionRun:
    """Attention in tiles of `tile` rows, with every operation outside the products counted.

    Raises UnfitMatrices if the shapes do not fit.
    """
    check_attention_shapes(query, key, value)
    count: Counter[str] = Counter()
    output = np.zeros((len(query), value.shape[1]))
    for i in range(tiles_of(len(query), tile)):
        rows = query[span(i, tile)] / np.sqrt(query.shape[1])
        m, l = np.full(len(rows), -np.inf), np.zeros(len(rows))
        acc = np.zeros((len(rows), value.shape[1]))
        for j in range(tiles_of(len(key), tile)):
            m, weights, alpha = _weights(rows @ key[span(j, tile)].T, m, count)
            new_l = alpha * l + weights.sum(axis=1)
            count.update(multiplications=len(rows), additions=weights.size)
            added = weights @ value[span(j, tile)]
            if every_step:
                acc = (alpha * l / new_l)[:, None] * acc + (1 / new_l)[:, None] * added
                count.update(multiplications=len(rows) + 2 * acc.size, divisions=2 * len(rows))
            else:
                acc = alpha[:, None] * acc + added
                count.update(multiplications=acc.size)
            count.update(additions=acc.size)
            l = new_l
        if not every_step:
            acc = (1 / l)[:, None] * acc
            count.update(multiplications=acc.size, divisions=len(rows))
        output[span(i, tile)] = acc
    return DivisionRun({kind: count[kind] for kind in KINDS}, output)


def _weights(
    scores: np.ndarray, m: np.ndarray, count: Counter[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The new row maxima, exp(scores - m) and alpha."""
    new_m = np.maximum(m, scores.max(axis=1))
    count.update(maxima=scores.size, subtractions=scores.size + len(m), exponentials=scores.size + len(m))
    return new_m, np.exp(scores - new_m[:, None]), np.exp(m - new_m)
