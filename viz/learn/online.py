"""One step of the online softmax for one row: its numbers, in a sentence and in formulas."""

from dataclasses import dataclass

import numpy as np

from viz.shared.formats import format_number, format_tex
from viz.shared.words import Words

WORDS = Words(__file__)


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


def update_words(step: Update, digits: int = 6) -> str:
    """What happens to m, which is written with so many digits, and to l; with marked terms."""
    old, m = format_number(step.m_before, digits), format_number(step.m, digits)
    return WORDS("update", step=step, old=old, m=m, signed=_signed(m))


def update_tex(step: Update) -> list[str]:
    """The new m, alpha and l in LaTeX, with the numbers."""
    old, m = format_tex(step.m_before, 6), format_tex(step.m, 6)
    given = {"step": step, "old": old, "m": m, "signed": _signed(m), "largest": step.scores.max()}
    return WORDS("formulas", **given).split("\n\n")


def _signed(text: str) -> str:
    return f"({text})" if text.startswith(("-", "−")) else text
