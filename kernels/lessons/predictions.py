"""What a reader predicts, and which slip a wrong number comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RELATIVE, ABSOLUTE = 0.02, 0.006
"""A prediction by hand from numbers of three digits may be off by so much."""


@dataclass(frozen=True)
class Misstep:
    """A wrong number that a known slip gives, and the slip in words."""

    value: float
    words: str


@dataclass(frozen=True)
class Quantity:
    """Something to predict: its right value, and the missteps that are known."""

    name: str
    value: float
    missteps: tuple[Misstep, ...] = ()


def near(given: float, value: float) -> bool:
    """Whether a number worked out by hand counts as `value`."""
    if not np.isfinite(value) or not np.isfinite(given):
        return given == value
    return abs(given - value) <= RELATIVE * abs(value) + ABSOLUTE


def judge(quantity: Quantity, given: float) -> tuple[bool, str]:
    """Whether the number is right; if not, the slip that gives it, or "" if none is known."""
    if near(given, quantity.value):
        return True, ""
    return False, next((slip.words for slip in quantity.missteps if near(given, slip.value)), "")


def next_state(
    m_before: float,
    l_before: float,
    scores: np.ndarray,
    found: tuple[float, float, float] | None = None,
) -> tuple[Quantity, Quantity, Quantity]:
    """m, alpha and l after a block of scores (n,) that follows the state m_before, l_before.

    m' = max(m, max x), alpha = exp(m - m'), l' = alpha l + sum exp(x - m') (Milakov and Gimelshein 2018,
    algorithm 3). `found`: what a kernel found instead of what float64 gives here.
    """
    block_max = float(scores.max())
    m = max(m_before, block_max)
    alpha = float(np.exp(m_before - m))
    added = float(np.exp(scores - m).sum())
    right = found or (m, alpha, alpha * l_before + added)
    first = not np.isfinite(m_before)
    with np.errstate(over="ignore"):
        old_max = [] if first else [(l_before + float(np.exp(scores - m_before).sum()), _OLD_MAX)]
        inverse = [] if first else [(float(np.exp(m - m_before)), _INVERSE), (m_before - m, _NO_EXP)]
        block_terms = float(np.exp(scores - block_max).sum())
    return (
        Quantity("m", right[0], _missteps([(block_max, _BLOCK_MAX), (m_before, _STAYED)])),
        Quantity("α", right[1], _missteps([(1.0, _NO_RESCALE), *inverse, (float(np.exp(block_max)), _LONE)])),
        Quantity(
            "l",
            right[2],
            _missteps(
                [
                    (l_before + added, _FORGOT),
                    *old_max,
                    (added, _DROPPED),
                    (alpha * l_before, _NOT_ADDED),
                    (alpha * l_before + block_terms, _BLOCK_TERMS),
                ]
            ),
        ),
    )


def next_numerator(y_before: float, m_before: float, scores: np.ndarray, values: np.ndarray) -> Quantity:
    """Y after a block of scores (n,) with values (n,): Y' = alpha Y + sum exp(x - m') v, alpha as above."""
    m = max(m_before, float(scores.max()))
    alpha, terms = float(np.exp(m_before - m)), np.exp(scores - m)
    added = float(terms @ values)
    return Quantity(
        "Y",
        alpha * y_before + added,
        _missteps(
            [
                (y_before + added, _FORGOT),
                (added, _DROPPED),
                (alpha * y_before, _NOT_ADDED),
                (alpha * y_before + float(terms.sum()), "the new terms are not multiplied by their values"),
            ]
        ),
    )


def weight_of_lse(score: float, lse: float) -> Quantity:
    """A weight of P from its score and the lse of its row: exp(score - lse)."""
    return Quantity(
        "P",
        float(np.exp(score - lse)),
        _missteps(
            [
                (float(np.exp(score)), "this is e^score; lse is not subtracted"),
                (float(np.exp(lse - score)), "this is exp(lse − score), the inverse"),
                (score - lse, "this is score − lse; exp of it is missing"),
                (
                    float(np.exp(score)) / lse if lse else np.inf,
                    "lse is subtracted inside exp, not divided by",
                ),
            ]
        ),
    )


_BLOCK_MAX = "this is the largest of the new scores alone; the old m is larger, and m never falls"
_STAYED = "this is the old m, but one of the new scores is larger"
_NO_RESCALE = "1 would mean that m stayed, but it grew"
_INVERSE = "this is exp(new m − old m), the inverse: the old sum has to shrink when m grows"
_NO_EXP = "this is old m − new m; exp of it is missing"
_LONE = "this is exp of the new max; the factor is exp of the difference, old m − new m"
_FORGOT = "the old sum was added without being rescaled by α"
_OLD_MAX = "the new terms were computed with the old m"
_DROPPED = "the old sum was dropped; it has to be multiplied by α and kept"
_NOT_ADDED = "the old sum was rescaled, but the new terms were not added"
_BLOCK_TERMS = "the new terms were computed with the max of this block; the larger old m stays"


def _missteps(pairs: Sequence[tuple[float, str]]) -> tuple[Misstep, ...]:
    return tuple(Misstep(value, words) for value, words in pairs)
