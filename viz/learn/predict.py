"""One thing to predict per chapter: the reader chooses or types, and then sees."""

import functools
from collections.abc import Sequence
from typing import Any

import streamlit as st

from viz.learn.predictions import ABSOLUTE, RELATIVE, Quantity, judge
from viz.learn.words import Words
from viz.shared.formats import format_number
from viz.shared.glossary import say


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
        st.caption(
            "Three significant digits are enough, as in 0.0498 or 20.1. A number counts as right if it "
            f"is off by at most {100 * RELATIVE:g} % of the right one plus {ABSOLUTE}."
        )
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
