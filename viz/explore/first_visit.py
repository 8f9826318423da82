"""The first visit, without a link: a small problem plays by itself, and nothing asks for anything yet."""

import streamlit as st

from kernels.problem.presets import FIRST_VISIT, PRESETS
from viz.shared.link import opened_with

STATE = "first_visit"
"""Key in the session: whether the visitor came without a link and has chosen nothing since."""
SIDEBAR = "sidebar"
"""How the sidebar of Explore begins: "expanded" once its fields were asked for, on a phone too."""
FIRST_PROBLEM = PRESETS[FIRST_VISIT].problem
SAYS = "FlashAttention: how a GPU computes [[attention]] and stores no [[score|scores]]"


def is_first_visit() -> bool:
    """Whether this is one still: a link from another page ends it."""
    st.session_state[STATE] = is_first = st.session_state.get(STATE, False) and not opened_with()
    return is_first


def end_first_visit() -> None:
    """From now on the page has its fields, with what they stand for, and all that is said of the run."""
    st.session_state.update({STATE: False, SIDEBAR: "expanded"} | FIRST_PROBLEM.as_dict())
