"""The URL of a page: what it opens a page with, and what it asks for in vain.

`app.py` looks at it before a page is drawn. A page that the navigation opens gets the values with which it
was left. Afterwards `app.py` says which names the page does not know, and which values a widget took out of
the URL without taking them: Streamlit shows its default in silence.
"""

import contextlib
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode

import streamlit as st
from streamlit.errors import StreamlitAPIException
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.state import SafeSessionState

from viz.shared.formats import plain, whole_number

LINK = "link"
"""Key in the session of the Link with which the page was opened."""
LEFT = "left_with"
"""Key in the session of the values of the URL with which each page was left, by page."""
BACKS = "backs"
"""Key in the session of how often Back or Forward was pressed."""
LONGEST = 80


@dataclass(frozen=True)
class UrlField:
    """A name in the URL of a page, and the values that it takes."""

    name: str
    default: str | int | None = None
    accepts: range | tuple[str | int, ...] = ()
    """Whole numbers or choices; () if its widget alone knows, or whoever reads it."""

    def read(self, text: str | None, otherwise: Any = None) -> Any:
        """The value of a text in the URL; `otherwise` for a text that is not accepted."""
        if isinstance(self.accepts, range):
            number = _number(text or "")
            # A widget for whole numbers cuts a fraction off. NaN fails both comparisons.
            return int(number) if self.accepts[0] <= number <= self.accepts[-1] else otherwise
        if not self.accepts and isinstance(self.default, str):
            return otherwise if text is None else text
        return next((value for value in self.accepts if str(value) == text), otherwise)

    @property
    def expected(self) -> str:
        """What it takes, in words; "" if that is not known here."""
        if isinstance(self.accepts, range):
            return f": expected {whole_number(self.accepts[0], self.accepts[-1])}"
        return f": expected one of {', '.join(map(str, self.accepts))}" if self.accepts else ""


@dataclass
class Link:
    """The URL that opened a page, and what is still to be said about it."""

    page: str
    given: dict[str, list[str]]
    """All values of the URL, in the first run of the page; else none."""
    asked: dict[str, list[str]] = field(default_factory=dict)
    """Values that nobody has judged yet, by name."""
    is_new: bool = True
    """Whether the page was just opened, though not by Back, and not yet drawn."""
    known: dict[str, UrlField] | None = None
    """Names that the page takes; None if it has not said which: then it takes all."""

    def knows(self, name: str) -> bool:
        """Whether the page takes this name. One that ends with "_" stands for all that begin so."""
        if self.known is None or name in self.known:
            return True
        return name.startswith(tuple(each for each in self.known if each.endswith("_")))


def remember_link(page: str) -> None:
    """Keep the values of the URL with which a page is opened: later ones were chosen on the page.

    Call this before the page, whose widgets take out of the URL what they do not take.
    """
    link, context = _link(), get_script_run_ctx()
    if context is None:  # Python runs app.py without Streamlit, as multiprocessing does in its children
        return
    st.session_state[BACKS] = st.session_state.get(BACKS, 0) + is_back()
    if link.page == page and LINK in st.session_state:
        link.given, link.is_new = {}, False
        return
    given = parse_qs(context.query_string)
    is_back_or_forward = context.is_history_navigation
    link = st.session_state[LINK] = Link(page, given, is_new=not is_back_or_forward)
    if is_back_or_forward:
        # Streamlit has taken out those whose names the page before has too, also in the browser.
        st.query_params.from_dict(parse_qs(context.query_string, keep_blank_values=True))
    elif not st.query_params:
        for name, texts in st.session_state.get(LEFT, {}).get(page, {}).items():
            with contextlib.suppress(StreamlitAPIException):  # bound to a widget, whose value Streamlit keeps
                st.query_params[name] = texts
    link.asked = {name: st.query_params.get_all(name) for name in st.query_params}
    infinite = [name for name, texts in link.asked.items() if math.isinf(_number(texts[-1]))]
    for name in infinite:  # for them st.number_input raises OverflowError
        del st.query_params[name]
    if infinite or is_back_or_forward:
        with context.session_state.query_params() as params:
            params.set_initial_query_params_from_current()  # with which the widgets of this run begin


def _link() -> Link:
    """That of the page; an empty one if the page runs without `app.py`."""
    return st.session_state.get(LINK) or Link("", {})


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def opened_with() -> dict[str, str]:
    """The values of the URL with which a page is opened, in its first run; else none.

    `st.query_params` lacks those whose names widgets of the page before have too: Streamlit takes them for
    what that page left behind, also if a link asks for them.
    """
    return {name: texts[-1] for name, texts in _link().given.items()}


def is_just_opened() -> bool:
    """Whether this is the first run of the page since it was opened by the navigation or a link."""
    return LINK in st.session_state and _link().is_new


def is_back() -> bool:
    """Whether Back or Forward led to this URL, be it on the same page or from another."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def _state() -> SafeSessionState:
    context = get_script_run_ctx()
    assert context is not None, "only in a run of Streamlit"
    return context.session_state


def begin_with(values: Mapping[str, Any]) -> None:
    """The widgets of this run begin with these values, as if the URL had them. Call it before them."""
    with _state().query_params() as params:
        params.set_initial_query_params(urlencode({**st.query_params, **values}))


def replace_in_url(names: Collection[str], values: Mapping[str, Any]) -> None:
    """Give these names of the URL these values, or none: as one step, also if they are bound to widgets."""
    with _state().query_params() as params:
        for name in names:
            params.discard_param_no_forward_msg(name)
        for name, value in values.items():
            params.set_with_no_forward_msg(name, str(value))
    st.query_params.update({})  # tells the browser


def takes_from_link(*fields: str | UrlField) -> None:
    """Say what a link to this page may have. A name that ends with "_" stands for all that begin so."""
    known = [UrlField(each) if isinstance(each, str) else each for each in fields]
    _link().known = {each.name: each for each in known}


def forget(name: str, texts: Collection[str]) -> None:
    """Say nothing about a value of the link if it is one of these."""
    asked = _link().asked
    if name in asked and asked[name][-1] in texts:
        del asked[name]


def judge(name: str, wrong: Callable[[str], str]) -> None:
    """Say, once, what is `wrong` with a value of the link that no widget has: "is past the end"."""
    if (given := _link().asked.pop(name, None)) and (words := wrong(given[-1])):
        _say({name: given[-1:]}, f"{plain(words)}.")


def say_refused() -> None:
    """Say which names are not known, and which values were not taken. Call this after the page."""
    link, state = _link(), st.session_state
    left = state.setdefault(LEFT, {})[link.page] = {
        name: st.query_params.get_all(name) for name in st.query_params
    }
    unknown = {name: link.asked.pop(name) for name in [*link.asked] if not link.knows(name)}
    if unknown:
        taken = ", ".join(f"{each}…" if each.endswith("_") else each for each in link.known or ())
        _say(unknown, f"is not used. This page takes {plain(taken)}.")
    for name in [name for name in link.asked if name in state]:
        given, value, kept = link.asked.pop(name), state[name], left.get(name, [])
        is_list = isinstance(value, (list, tuple))
        used = [str(each) for each in (value if is_list else [] if value is None else [value])]
        lost = [text for text in given if text not in kept] if is_list or not kept else []
        if lost and not _are_alike(given if is_list else given[-1:], used):
            field = link.known.get(name) if link.known else None
            words = plain(field.expected) if field else ""
            _say({name: lost}, f"is not accepted{words}. Using {', '.join(used) or 'nothing'} instead.")


def _say(asked: dict[str, list[str]], words: str) -> None:
    given = " ".join(", ".join(f"{name}={', '.join(texts)}" for name, texts in asked.items()).split())
    cut = f"{given[:LONGEST]} …" if len(given) > LONGEST else given
    st.toast(f"{plain(cut)} in the link {words}", icon=":material/link_off:", duration="long")


def _are_alike(given: list[str], used: list[str]) -> bool:
    """Whether the texts of a link stand for the values that widgets use, which may be their defaults."""
    return len(given) == len(used) and all(
        text.lower() == other.lower() or _number(text) == _number(other)
        for text, other in zip(given, used, strict=True)
    )
