"""The first visit, without a link: a small problem plays by itself, and nothing asks for anything yet."""

from urllib.parse import urlsplit

import streamlit as st

from kernels.problem.presets import FIRST_VISIT, PRESETS
from viz.shared.link import opened_with

STATE = "first_visit"
"""Key in the session: whether nothing was chosen yet."""
FIRST_PROBLEM = PRESETS[FIRST_VISIT].problem
SIDEBAR = "sidebar"
"""How the sidebar begins: "expanded" once its fields were asked for, on a phone too."""


def is_first_visit() -> bool:
    """Whether the visitor came without a link and has chosen nothing since."""
    if STATE not in st.session_state:
        is_landing = urlsplit(st.context.url or "").path in ("", "/")
        st.session_state[STATE] = is_landing and not st.query_params
    return st.session_state[STATE]


def stays_first_visit() -> bool:
    """Whether it is one still: a link from another page ends it."""
    st.session_state[STATE] = is_first = st.session_state.get(STATE, False) and not opened_with()
    return is_first


def end_first_visit() -> None:
    """From now on the page has its fields, with what they stand for, and all that is said of the run."""
    st.session_state.update({STATE: False, SIDEBAR: "expanded"} | FIRST_PROBLEM.as_dict())
