"""What a reader predicts, and which slip a wrong number comes from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from viz.learn.online import Update

RELATIVE, ABSOLUTE = 0.02, 0.006
"""A prediction by hand from numbers of three digits may be off by so much."""


@dataclass(frozen=True)
class Quantity:
    """Something to predict: its right value, and the wrong ones that known slips give."""

    name: str
    value: float
    slips: Mapping[str, float] = field(default_factory=dict)
    """The slip in words -> its value."""


def near(given: float, value: float) -> bool:
    """Whether a number worked out by hand counts as `value`."""
    if not np.isfinite(value) or not np.isfinite(given):
        return given == value
    return abs(given - value) <= RELATIVE * abs(value) + ABSOLUTE


def judge(quantity: Quantity, given: float) -> tuple[bool, str]:
    """Whether the number is right; if not, the slip that gives it, or "" if none is known."""
    if near(given, quantity.value):
        return True, ""
    return False, next((words for words, value in quantity.slips.items() if near(given, value)), "")


def next_state(step: Update) -> tuple[Quantity, Quantity, Quantity]:
    """m, alpha and l after a block of scores joins a row."""
    m, l, scores = step.m_before, step.l_before, step.scores
    block_max = float(scores.max())
    with np.errstate(over="ignore"):  # a slip that gives infinity is nobody's answer
        inverse, of_max = float(np.exp(step.m - m)), float(np.exp(block_max))
        with_old_max, with_block_max = (float(np.exp(scores - each).sum()) for each in (m, block_max))
    of_m = {
        "this is the largest of the new scores alone; the old m is larger": block_max,
        "this is the old m, but one of the new scores is larger": m,
    }
    of_alpha = {
        "1 would mean that m stayed, but it grew": 1.0,
        "this is exp(new m − old m), the inverse: the old sum has to shrink when m grows": inverse,
        "this is old m − new m; exp of it is missing": m - step.m,
        "this is exp of the new max; the factor is exp of the difference, old m − new m": of_max,
    }
    of_l = {
        NOT_RESCALED: l + step.added,
        "the new terms were computed with the old m": l + with_old_max,
        DROPPED: step.added,
        NOT_ADDED: step.alpha * l,
        BLOCK_MAX: step.alpha * l + with_block_max,
    }
    return Quantity("m", step.m, of_m), Quantity("α", step.alpha, of_alpha), Quantity("l", step.l, of_l)


def next_numerator(y_before: float, step: Update, values: np.ndarray) -> Quantity:
    """Y after the block, whose keys have these values (keys,): Y' = alpha Y + sum exp(x - m') v."""
    added, kept = float(step.terms @ values), step.alpha * y_before
    slips = {
        NOT_RESCALED: y_before + added,
        DROPPED: added,
        NOT_ADDED: kept,
        "the new terms are not multiplied by their values": kept + step.added,
    }
    return Quantity("Y", kept + added, slips)


def weight_of_lse(score: float, lse: float) -> Quantity:
    """A weight of P from its score and the lse of its row: exp(score - lse)."""
    exponential = float(np.exp(score))
    slips = {
        "this is e^score; lse is not subtracted": exponential,
        "this is exp(lse − score), the inverse": float(np.exp(lse - score)),
        "this is score − lse; exp of it is missing": score - lse,
        "lse is subtracted inside exp, not divided by": exponential / lse if lse else np.inf,
    }
    return Quantity("P", float(np.exp(score - lse)), slips)


NOT_RESCALED = "the old sum was added without being rescaled by α"
DROPPED = "the old sum was dropped; it has to be multiplied by α and kept"
NOT_ADDED = "the old sum was rescaled, but the new terms were not added"
BLOCK_MAX = "the new terms were computed with the max of this block; the larger old m stays"
