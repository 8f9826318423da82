"""Through a lesson: its parts, and its steps by buttons with keys and a slider. Both are in the URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import streamlit as st

from viz.learn.url_state import keep_in_url, put_in_url, switch_in_url, take_from_url

PARTS_LEFT = "parts_left"
"""Key in the session: whether the chapter that was drawn last has parts after the chosen one."""


PART_SHOWN = "part_shown"
"""Key in the session: the chosen part of the chapter that was drawn last, if it has parts."""


def parts(key: str, draws: Mapping[str, Callable[[], None]], *steppers: str) -> None:
    """The part of a chapter that the reader chose, from the first on, and a button to the next one.

    The `steppers` of the parts, by their keys, start anew in another part.
    """
    names = list(draws)
    numbered = {name: f"{number}. {name}" for number, name in enumerate(names, 1)}
    chosen = switch_in_url(
        "Part", names, key, names[0], shown=numbered.__getitem__, label_visibility="collapsed"
    )
    before = st.session_state.get(f"{key} before", chosen)
    st.session_state[f"{key} before"] = chosen
    if before != chosen:
        for step in steppers:
            st.query_params.pop(step, None)
            st.session_state.pop(step, None)
    st.session_state[PART_SHOWN] = chosen
    draws[chosen]()
    following = names.index(chosen) + 1
    if following < len(names):
        st.button(
            f"Go on: {numbered[names[following]]}",
            key=f"{key}_on",
            icon=":material/arrow_forward:",
            type="primary",
            on_click=put_in_url,
            args=(key, names[following], names[0]),
        )
    st.session_state[PARTS_LEFT] = following < len(names)


def stepper(key: str, count: int, smaller: str = "scores at a time") -> int:
    """The step that the reader chose, 1 to `count`. It starts at 1; the URL's parameter is `key`.

    `smaller` names the input whose smaller values give more steps.
    """
    if count == 1:
        st.caption(f"There is one step only: choose fewer {smaller} to see more.")
        return 1
    take_from_url(key, 1, lambda text: min(max(int(text), 1), count))
    row = st.container(horizontal=True, vertical_alignment="center", gap="small")
    buttons = row.container(horizontal=True, gap="small", width="content")
    step = row.slider(
        "step",
        1,
        count,
        key=key,
        on_change=keep_in_url,
        args=(key, 1),
        label_visibility="collapsed",
        format=f"%d of {count}",
    )
    for name, icon, target, shortcut in (
        ("First", ":material/first_page:", 1, "Home"),
        ("Back", ":material/chevron_left:", max(step - 1, 1), "Left"),
        ("Forward", ":material/chevron_right:", min(step + 1, count), "Right"),
        ("Last", ":material/last_page:", count, "End"),
    ):
        buttons.button(
            name,
            key=f"{key}_{name}",
            icon=icon,
            on_click=put_in_url,
            args=(key, target, 1),
            disabled=target == step,
            shortcut=shortcut,
        )
    return step
