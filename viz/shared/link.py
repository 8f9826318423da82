"""The URL of a page: what it opens a page with, and what it asks for in vain.

`app.py` looks at it before a page is drawn. A page that the navigation opens gets the values with which it
was left. Afterwards `app.py` says which names the page does not know, and which values a widget took out of
the URL without taking them: Streamlit shows its default in silence. Values of the problem have a message of
their own, which names what is accepted (`viz/shared/problem_form.py`).
"""

from __future__ import annotations

import contextlib
from urllib.parse import parse_qs

import streamlit as st
from streamlit.errors import StreamlitAPIException
from streamlit.runtime.scriptrunner import get_script_run_ctx

from kernels.problem import InvalidProblem
from viz.shared.formats import plain
from viz.shared.options import kernel_labels, named_kernels

OPENED = "opened_page"
"""Key in the session of the page whose link was looked at."""
GIVEN = "opened_with"
"""Key in the session of what `opened_with` returns, each value as a list."""
HIDDEN = "hidden_by_streamlit"
"""Key in the session of the same for the next run."""
LEFT = "left_with"
"""Key in the session of the values of the URL with which each page was left, by page."""
ASKED = "asked_in_link"
"""Key in the session of the values of that link whose widgets were not drawn yet, by name."""
KNOWN = "names_in_links"
"""Key in the session of the names that a link to the page may have."""
REFUSED = "refused_in_link"
"""Key in the session of values of the problem that no control takes: field to words."""
LONGEST = 40
"""Characters of a name or a value that a message repeats."""
MOST = 5
"""Names that a message repeats."""


def remember_link(page: str) -> None:
    """Keep the values of the URL with which a page is opened: later ones were chosen on the page.

    Call this before the page, whose widgets take out of the URL what they do not take.
    """
    st.session_state[GIVEN] = st.session_state.pop(HIDDEN, {})
    if st.session_state.get(OPENED) == page:
        return
    st.session_state[OPENED] = page
    st.session_state.pop(KNOWN, None)
    given, is_back_or_forward = _url_of_run()
    st.session_state[GIVEN] = given
    if not st.query_params and not is_back_or_forward:
        _reopen_as_left(page)
    names = [*st.query_params]
    st.session_state[ASKED] = {name: tuple(st.query_params.get_all(name)) for name in names}
    if is_back_or_forward and {*given} - {*names}:
        st.session_state[HIDDEN] = given
        st.rerun()  # the second run of a page has all values of the URL


def opened_with() -> dict[str, str]:
    """The values of the URL with which a page is opened, in its first run; else none.

    `st.query_params` lacks those whose names widgets of the page before have too: Streamlit takes them for
    what that page left behind, also if a link or Back asks for them.
    """
    given: dict[str, list[str]] = st.session_state.get(GIVEN, {})
    return {name: values[-1] for name, values in given.items()}


def _url_of_run() -> tuple[dict[str, list[str]], bool]:
    """All values of the URL, and whether Back or Forward has led to it."""
    context = get_script_run_ctx()
    if context is None:
        return {}, False
    return parse_qs(context.query_string), context.is_history_navigation


def _reopen_as_left(page: str) -> None:
    """Give a page that the navigation opens the values of the URL with which it was left."""
    for name, values in st.session_state.get(LEFT, {}).get(page, {}).items():
        with contextlib.suppress(StreamlitAPIException):  # bound to a widget, whose value Streamlit keeps
            st.query_params[name] = values


def takes_from_link(*names: str) -> None:
    """Say which names a link to this page may have. One that ends with "_" stands for all that begin so."""
    st.session_state[KNOWN] = names


def is_known(name: str) -> bool:
    """Whether the page takes this name. If it has not said which it takes, it takes all."""
    known: tuple[str, ...] | None = st.session_state.get(KNOWN)
    if known is None or name in known:
        return True
    return name.startswith(tuple(each for each in known if each.endswith("_")))


def forget(name: str) -> None:
    """Say nothing about a value of the link: something else was said about it."""
    st.session_state.get(ASKED, {}).pop(name, None)


def first_asked(name: str) -> str | None:
    """What the link asks for by a name that is no widget's, for whoever judges it. None the next time."""
    given = st.session_state.get(ASKED, {}).pop(name, None)
    return given[-1] if given else None


def refuse(name: str, given: str, words: str) -> None:
    """Say of a value of the link what is wrong with it: "is past the end; expected 0 to 136"."""
    _say({name: (given,)}, f"{plain(words)}.")


def say_refused() -> None:
    """Say which names are not known, and which values were not taken. Call this after the page."""
    left = st.session_state.setdefault(LEFT, {})
    left[st.session_state[OPENED]] = {name: st.query_params.get_all(name) for name in st.query_params}
    asked = st.session_state[ASKED]
    _say_unknown(asked)
    for name, given in list(asked.items()):
        if name not in st.session_state:
            continue
        del asked[name]
        value = st.session_state[name]
        kept = st.query_params.get_all(name) if isinstance(value, (list, tuple)) else given
        lost = tuple(text for text in given if text not in kept) if name in st.query_params else given
        is_said = name in st.session_state.get(REFUSED, {})
        if lost and not is_said and not _is_text_of(given, name, value):
            _say({name: lost}, f"is not accepted. Shown is {_text(value)}.")


def _say_unknown(asked: dict[str, tuple[str, ...]]) -> None:
    """Say all of them at once, with the names that the page takes."""
    unknown = {name: asked.pop(name) for name in [*asked] if not is_known(name)}
    if unknown:
        taken = ", ".join(f"{each}…" if each.endswith("_") else each for each in st.session_state[KNOWN])
        are = "is" if len(unknown) == 1 else "are"
        _say(unknown, f"{are} not used: this page takes {plain(taken)}.")


def _say(asked: dict[str, tuple[str, ...]], words: str) -> None:
    """Say what came of names and their values in the link; the first of them stand for more."""
    pairs = [f"{name[:LONGEST]}={', '.join(given)[:LONGEST]}" for name, given in asked.items()]
    more = f" and {len(pairs) - MOST} more" if len(pairs) > MOST else ""
    given = plain(" ".join(", ".join(pairs[:MOST]).split()))
    st.toast(f"{given}{more} in the link {words}", icon=":material/link_off:", duration="long")


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
