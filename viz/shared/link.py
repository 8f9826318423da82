"""What a link asks for in vain: Streamlit gives a widget its default for a value that it does not take.

`app.py` looks at the link before a page is drawn. Afterwards it says which of its values a widget took out of
the URL without taking them. Values of the problem have a message of their own, which names what is accepted
(`viz/shared/problem_form.py`).
"""

from __future__ import annotations

import streamlit as st

from kernels.problem import InvalidProblem
from viz.shared.formats import plain
from viz.shared.options import kernel_labels, named_kernels

OPENED = "opened_page"
"""Key in the session of the page whose link was looked at."""
ASKED = "asked_in_link"
"""Key in the session of the values of that link whose widgets were not drawn yet, by name."""
REFUSED = "refused_in_link"
"""Key in the session of values of the problem that no control takes: field to words."""
LONGEST = 40
"""Characters of a value that a message repeats."""


def remember_link(page: str) -> None:
    """Keep the values of the URL with which a page is opened: later ones were chosen on the page.

    Call this before the page, whose widgets take out of the URL what they do not take.
    """
    if st.session_state.get(OPENED) != page:
        st.session_state[OPENED] = page
        names = [*st.query_params]
        st.session_state[ASKED] = {name: tuple(st.query_params.get_all(name)) for name in names}


def forget(name: str) -> None:
    """Say nothing about a value of the link: something else was said about it."""
    st.session_state.get(ASKED, {}).pop(name, None)


def say_refused() -> None:
    """Say which values were not taken. Call this after the page."""
    asked = st.session_state[ASKED]
    for name, given in list(asked.items()):
        if name not in st.session_state:
            continue
        del asked[name]
        value = st.session_state[name]
        is_kept = name in st.query_params or name in st.session_state.get(REFUSED, {})
        if not is_kept and not _is_text_of(given, name, value):
            words = f"{name}={plain(', '.join(given)[:LONGEST])} in the link is not accepted."
            st.toast(f"{words} Shown is {_text(value)}.", icon=":material/link_off:", duration="long")


def _is_text_of(given: tuple[str, ...], name: str, value: object) -> bool:
    """Whether the texts of a link stand for a widget's value, which may be its default."""
    if isinstance(value, (list, tuple)):
        return [*given] == [str(each) for each in value]
    (text,) = given[-1:]
    if isinstance(value, bool):
        return text.lower() == str(value).lower()
    if isinstance(value, (int, float)):
        try:
            return float(text) == value
        except ValueError:
            return False
    return text in (str(value), _label(name, value))


def _label(name: str, value: object) -> str | None:
    """What the URL calls a kernel of the user's."""
    if name != "kernel":
        return None
    try:
        return kernel_labels(named_kernels()).get(str(value))
    except InvalidProblem:
        return None  # the Check page says what is wrong with the name


def _text(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "nothing"
    return "nothing" if value in (None, "") else str(value)
