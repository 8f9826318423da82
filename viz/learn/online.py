"""One step of the online softmax for one row."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Update:
    """A block of scores joins a row: m' = max(m, max x), alpha = exp(m - m'), l' = alpha l + sum exp(x - m').

    Milakov and Gimelshein 2018, algorithm 3; for blocks Dao et al. 2022, section 3.1.
    """

    scores: np.ndarray
    """x of the block, (keys,)."""
    m_before: float
    """-inf before the first block."""
    l_before: float
    m: float
    alpha: float
    """Rescales the old sum to the new max; 0 at the first block."""
    l: float

    @property
    def terms(self) -> np.ndarray:
        """(keys,): exp(x - m) of this block."""
        return np.exp(self.scores - self.m)

    @property
    def added(self) -> float:
        return float(self.terms.sum())


def update(m: float, l: float, scores: np.ndarray) -> Update:
    """The state m, l of a row after the next block of scores (keys,), in float64."""
    m_new = max(m, float(scores.max()))
    alpha = float(np.exp(m - m_new))
    return Update(scores, m, l, m_new, alpha, alpha * l + float(np.exp(scores - m_new).sum()))
