"""One thing to predict per chapter: the reader chooses or types, and then sees. A wrong number has a slip."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import streamlit as st

from viz.learn.softmax.maths import Update
from viz.shared.formats import format_number, format_tex
from viz.shared.glossary import say
from viz.shared.words import Words

RELATIVE, ABSOLUTE = 0.02, 0.006
"""A prediction by hand from numbers of three digits may be off by so much."""
WORDS = Words(__file__)
SLIPS = dict(WORDS.cells("slips"))
NOT_RESCALED, DROPPED, NOT_ADDED = SLIPS["not rescaled"], SLIPS["dropped"], SLIPS["not added"]
BLOCK_MAX = SLIPS["max of the block"]


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
    of_m = {SLIPS["m of the block"]: block_max, SLIPS["old m"]: m}
    of_alpha = {
        SLIPS["α of 1"]: 1.0,
        SLIPS["inverse α"]: inverse,
        SLIPS["α without exp"]: m - step.m,
        SLIPS["α of the max"]: of_max,
    }
    of_l = {
        NOT_RESCALED: l + step.added,
        SLIPS["terms of the old m"]: l + with_old_max,
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
        SLIPS["without values"]: kept + step.added,
    }
    return Quantity("Y", kept + added, slips)


def weight_of_lse(score: float, lse: float) -> Quantity:
    """A weight of P from its score and the lse of its row: exp(score - lse)."""
    exponential = float(np.exp(score))
    slips = {
        SLIPS["without lse"]: exponential,
        SLIPS["inverse P"]: float(np.exp(lse - score)),
        SLIPS["P without exp"]: score - lse,
        SLIPS["divided by lse"]: exponential / lse if lse else np.inf,
    }
    return Quantity("P", float(np.exp(score - lse)), slips)


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


def ask(words: Words, section: str, key: str, options: Sequence[str], right: str, **given: Any) -> bool:
    """A question with a few answers. Whether the reader has chosen one or given up; then it is answered.

    The section of the chapter's words has the question and, after a line, the reason; `given` fills both.
    `key` names the question: with another key it is a new question, and not yet answered.
    """
    question, because = words(section, **given).split("\n\n---\n\n")
    with st.container(border=True, key=f"predict_{key}"):
        say(f"**Predict.** {question}")
        with st.container(horizontal=True, vertical_alignment="center"):
            chosen = st.radio(
                "Your answer",
                options,
                index=None,
                key=f"{key}_answer",
                horizontal=True,
                label_visibility="collapsed",
                width="content",
            )
            gave_up = chosen is None and st.session_state.get(f"{key}_shown")
            if chosen is None and not gave_up:
                show = functools.partial(st.session_state.update, {f"{key}_shown": True})
                icon = ":material/visibility:"
                st.button("Show", f"{key}_show", icon=icon, type="tertiary", on_click=show)
        if chosen is None and not gave_up:
            return False
        if gave_up:
            st.info(f"{right}. {because}", icon=":material/visibility:")
        elif chosen == right:
            st.success(f"Right. {because}", icon=":material/check:")
        else:
            st.error(f"No: {right}. {because}", icon=":material/close:")
    return True


def type_in(key: str, question: str, wanted: Sequence[Quantity], because: str) -> bool:
    """Numbers to type. Whether all are right or have been shown; each wrong one is told by its slip."""
    with st.container(border=True, key=f"predict_{key}"):
        say(f"**Predict.** {question}")
        with st.form(f"{key}_form", border=False):
            row = st.container(horizontal=True, vertical_alignment="bottom", gap="small")
            given = [
                row.number_input(
                    quantity.name,
                    value=None,
                    step=None,
                    format="%g",  # as typed: the default shows two decimals
                    key=f"{key}_{quantity.name}",
                    width=100,
                )
                for quantity in wanted
            ]
            row.form_submit_button("Check", icon=":material/check:")
            if row.form_submit_button("Show", icon=":material/visibility:"):
                st.session_state[f"{key}_shown"] = True
        st.caption(WORDS("enough digits", percent=100 * RELATIVE, more=ABSOLUTE))
        lines, rights = [], 0
        for quantity, number in zip(wanted, given, strict=True):
            if number is not None:
                right, slip = judge(quantity, number)
                rights += right
                badge = ":green-badge[:material/check:" if right else ":red-badge[:material/close:"
                lines.append(f"{badge} {quantity.name}] {'right' if right else slip or 'not yet'}")
        if lines:
            st.markdown("  \n".join(lines))
        if rights == len(wanted) or st.session_state.get(f"{key}_shown"):
            values = (f"**{quantity.name} = {format_number(quantity.value)}**" for quantity in wanted)
            say(f"{', '.join(values)}. {because}")
            return True
    return False
