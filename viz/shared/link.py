"""What a link asks for in vain: Streamlit gives a widget its default for a value that it does not take.

`app.py` looks at the link before a page is drawn, and afterwards says which of its values were not taken.
Values of the problem have a message of their own, which names what is accepted: `viz/shared/problem_form.py`.
"""

from __future__ import annotations

import streamlit as st

from kernels.problem import InvalidProblem
from viz.shared.options import kernel_labels, named_kernels

ASKED, SEEN = "asked_in_link", "seen_in_link"
"""Keys in the session: values whose widgets were not drawn yet, by name; and all that were ever looked at."""
REFUSED = "refused_in_link"
"""Key in the session of values of the problem that no control takes: field to words."""
LONGEST = 40
"""Characters of a value that a message repeats."""


def remember_link() -> None:
    """Keep the values of the URL. Call this before the page: its widgets take out those that they refuse."""
    asked = st.session_state.setdefault(ASKED, {})
    seen = st.session_state.setdefault(SEEN, set())
    for name in st.query_params:
        given = tuple(st.query_params.get_all(name))
        if (name, given) not in seen:  # one that the reader chose on the page comes here too, a run late
            seen.add((name, given))
            asked[name] = given


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
            words = f"{name}={', '.join(given)[:LONGEST]} in the link is not accepted."
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
    return text in (str(value), _label(name, value)) or (value is None and text == "")


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
