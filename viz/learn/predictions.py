"""What a reader predicts, and which slip a wrong number comes from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from viz.learn.online import Update

RELATIVE, ABSOLUTE = 0.02, 0.006
"""A prediction by hand from numbers of three digits may be off by so much."""


@dataclass(frozen=True)
class Quantity:
    """Something to predict: its right value, and the wrong ones that known slips give."""

    name: str
    value: float
    slips: tuple[tuple[float, str], ...] = ()
    """(wrong value, the slip in words)."""


def near(given: float, value: float) -> bool:
    """Whether a number worked out by hand counts as `value`."""
    if not np.isfinite(value) or not np.isfinite(given):
        return given == value
    return abs(given - value) <= RELATIVE * abs(value) + ABSOLUTE


def judge(quantity: Quantity, given: float) -> tuple[bool, str]:
    """Whether the number is right; if not, the slip that gives it, or "" if none is known."""
    if near(given, quantity.value):
        return True, ""
    return False, next((words for value, words in quantity.slips if near(given, value)), "")


def next_state(step: Update) -> tuple[Quantity, Quantity, Quantity]:
    """m, alpha and l after a block of scores joins a row."""
    m_before, l_before, scores = step.m_before, step.l_before, step.scores
    block_max = float(scores.max())
    kept = step.alpha * l_before
    with np.errstate(over="ignore"):  # a slip that gives infinity is nobody's answer
        inverse, of_max = float(np.exp(step.m - m_before)), float(np.exp(block_max))
        with_old_max = float(np.exp(scores - m_before).sum())
        with_block_max = float(np.exp(scores - block_max).sum())
    return (
        Quantity(
            "m",
            step.m,
            (
                (block_max, "this is the largest of the new scores alone; the old m is larger"),
                (m_before, "this is the old m, but one of the new scores is larger"),
            ),
        ),
        Quantity(
            "α",
            step.alpha,
            (
                (1.0, "1 would mean that m stayed, but it grew"),
                (inverse, "this is exp(new m − old m), the inverse: the old sum has to shrink when m grows"),
                (m_before - step.m, "this is old m − new m; exp of it is missing"),
                (of_max, "this is exp of the new max; the factor is exp of the difference, old m − new m"),
            ),
        ),
        Quantity(
            "l",
            step.l,
            (
                (l_before + step.added, _NOT_RESCALED),
                (l_before + with_old_max, "the new terms were computed with the old m"),
                (step.added, _DROPPED),
                (kept, _NOT_ADDED),
                (
                    kept + with_block_max,
                    "the new terms were computed with the max of this block; the larger old m stays",
                ),
            ),
        ),
    )


def next_numerator(y_before: float, step: Update, values: np.ndarray) -> Quantity:
    """Y after the block, whose keys have these values (keys,): Y' = alpha Y + sum exp(x - m') v."""
    added = float(step.terms @ values)
    kept = step.alpha * y_before
    return Quantity(
        "Y",
        kept + added,
        (
            (y_before + added, _NOT_RESCALED),
            (added, _DROPPED),
            (kept, _NOT_ADDED),
            (kept + step.added, "the new terms are not multiplied by their values"),
        ),
    )


def weight_of_lse(score: float, lse: float) -> Quantity:
    """A weight of P from its score and the lse of its row: exp(score - lse)."""
    return Quantity(
        "P",
        float(np.exp(score - lse)),
        (
            (float(np.exp(score)), "this is e^score; lse is not subtracted"),
            (float(np.exp(lse - score)), "this is exp(lse − score), the inverse"),
            (score - lse, "this is score − lse; exp of it is missing"),
            (float(np.exp(score)) / lse if lse else np.inf, "lse is subtracted inside exp, not divided by"),
        ),
    )


_NOT_RESCALED = "the old sum was added without being rescaled by α"
_DROPPED = "the old sum was dropped; it has to be multiplied by α and kept"
_NOT_ADDED = "the old sum was rescaled, but the new terms were not added"
