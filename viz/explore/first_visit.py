"""The first visit, without a link: a small problem plays by itself, and nothing asks for anything yet."""

import streamlit as st

from kernels.problem.presets import FIRST_VISIT, PRESETS
from kernels.recordings import recorded_document
from viz.explore.cards import WORDS
from viz.shared.link import opened_with

STATE = "first_visit"
"""Key in the session: whether the visitor came without a link and has chosen nothing since."""
SIDEBAR = "sidebar"
"""How the sidebar of Explore begins: "expanded" once its fields were asked for, on a phone too."""
FIRST_PROBLEM = PRESETS[FIRST_VISIT].problem


def is_first_visit() -> bool:
    """Whether this is one still: a link from another page ends it."""
    st.session_state[STATE] = is_first = st.session_state.get(STATE, False) and not opened_with()
    return is_first


def long_text() -> str:
    """What the longest text took that standard attention can do too: one call, recorded."""
    measured = recorded_document("models").measurements
    all_results = ((each, each.result("ours"), each.result("naive")) for each in measured)
    done = [each for each in all_results if each[0].problem.q_len > 1 and each[2] and each[2].timing]
    longest, ours, naive = max(done, key=lambda each: each[0].problem.kv_len)
    return " " + WORDS("long text", of=longest, ours=ours, naive=naive)


def end_first_visit() -> None:
    """From now on the page has its fields, with what they stand for, and all that is said of the run."""
    st.session_state.update({STATE: False, SIDEBAR: "expanded"} | FIRST_PROBLEM.as_dict())
