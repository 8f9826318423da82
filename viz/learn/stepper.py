"""The way through Learn: steps of a part and parts of a chapter. Both are in the URL."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from viz.learn.controls import keep_in_url, put_in_url, switch, take_from_url

_to_top = st.components.v2.component(
    "to_top",
    html="<span></span>",
    js="""
let shown;
export default function ({ data }) {
  if (shown !== undefined && shown !== data.place) {
    document.querySelector('[data-testid="stMain"]')?.scrollTo({ top: 0 });
  }
  shown = data.place;
}
""",
)

PARTS_LEFT, PART_SHOWN = "parts_left", "part_shown"
"""Keys in the session, of the chapter drawn last: whether parts follow the chosen one, and which that is."""


def parts(key: str, draws: Mapping[str, Callable[[], None]], *steppers: str) -> None:
    """The chosen part of a chapter, and a button to the next one. In another part `steppers` start anew."""
    names = list(draws)
    numbered = {name: f"{number}. {name}" for number, name in enumerate(names, 1)}
    chosen = switch("Part", names, key, shown=numbered.__getitem__)
    before, st.session_state[f"{key} before"] = st.session_state.get(f"{key} before", chosen), chosen
    for step in steppers if before != chosen else ():
        st.query_params.pop(step, None)
        st.session_state.pop(step, None)
    st.session_state[PART_SHOWN] = chosen
    draws[chosen]()
    following = names[names.index(chosen) + 1 :]
    st.session_state[PARTS_LEFT] = bool(following)
    if following:
        st.button(
            f"Go on: {numbered[following[0]]}",
            key=f"{key}_on",
            icon=":material/arrow_forward:",
            type="primary",
            on_click=put_in_url,
            args=(key, following[0], names[0]),
        )


def stepper(key: str, count: int, smaller: str = "scores at a time") -> int:
    """The step that the reader chose, 1 to `count`; fewer of what `smaller` names give more steps."""
    if count == 1:
        st.caption(f"There is one step only: choose fewer {smaller} to see more.")
        return 1
    row = st.container(horizontal=True, vertical_alignment="center", gap="small")
    buttons = row.container(horizontal=True, gap="small", width="content")
    with row:
        step = whole_number("step", key, 1, count, 1, format=f"%d of {count}", label_visibility="collapsed")
    with buttons:
        step_buttons(key, range(1, count + 1), step)
    return step


def whole_number(label: str, key: str, low: int, high: int, default: int, **looks: Any) -> int:
    """A slider that buttons may move too; a value of the URL that is too small or large is the nearest."""
    take_from_url(key, default, lambda text: min(max(int(text), low), high))
    return st.slider(label, low, high, key=key, on_change=keep_in_url, args=(key, default), **looks)


def step_buttons(key: str, steps: Sequence[int | str], now: int | str, *names: str) -> None:
    """Buttons that put another of the `steps` into the URL; the first one is its default. All, or by name."""
    place, last = steps.index(now), len(steps) - 1
    for name, icon, target, shortcut in (
        ("First", "first_page", 0, "Home"),
        ("Back", "chevron_left", max(place - 1, 0), "Left"),
        ("Forward", "chevron_right", min(place + 1, last), "Right"),
        ("Last", "last_page", last, "End"),
    ):
        if not names or name in names:
            st.button(
                name,
                key=f"{key}_{name}",
                icon=f":material/{icon}:",
                on_click=put_in_url,
                args=(key, steps[target], steps[0]),
                disabled=target == place,
                shortcut=shortcut,
            )


def start_at_top(place: str) -> None:
    """Scroll to the top if `place`, the name of what is shown, is another one than before."""
    _to_top(key="to_top", data={"place": place})
