"""The first visit, without a link: a small problem plays by itself, and nothing asks for anything yet."""

from urllib.parse import urlsplit

import streamlit as st

STATE = "first_visit"
"""Key in the session: whether nothing was chosen yet."""


SIDEBAR = "sidebar"
"""How the sidebar begins: "expanded" once its fields were asked for, on a phone too."""


def is_first_visit() -> bool:
    """Whether the visitor came without a link and has chosen nothing since."""
    if STATE not in st.session_state:
        is_landing = urlsplit(st.context.url or "").path in ("", "/")
        st.session_state[STATE] = is_landing and not st.query_params
    return st.session_state[STATE]


def end_first_visit() -> None:
    """From now on the page has its fields, and all that is said of the run."""
    st.session_state.update({STATE: False, SIDEBAR: "expanded"})
