"""Forward and back through the steps of a lesson: buttons with keys, and a slider, all one value of the URL."""

from __future__ import annotations

import streamlit as st


def stepper(key: str, count: int, first: int = 1) -> int:
    """The step chosen, 1 to `count`; it starts at `first` and is the parameter `key` of the URL."""
    if count == 1:
        st.caption("One block, one step: choose smaller blocks to see more.")
        return 1
    value = st.session_state.get(key)
    if isinstance(value, int) and not 1 <= value <= count:
        st.session_state[key] = min(max(value, 1), count)
    row = st.container(horizontal=True, vertical_alignment="center", gap="small")
    buttons = row.container(horizontal=True, gap="small", width="content")
    words = f"%d of {count}"
    now = row.slider(
        "step",
        1,
        count,
        min(first, count),
        key=key,
        bind="query-params",
        label_visibility="collapsed",
        format=words,
    )
    for name, icon, target, shortcut in (
        ("First", ":material/first_page:", 1, "Home"),
        ("Back", ":material/chevron_left:", max(now - 1, 1), "Left"),
        ("Forward", ":material/chevron_right:", min(now + 1, count), "Right"),
        ("Last", ":material/last_page:", count, "End"),
    ):
        buttons.button(
            name,
            key=f"{key}_{name}",
            icon=icon,
            on_click=_go,
            args=(key, target),
            disabled=target == now,
            shortcut=shortcut,
        )
    return now


def _go(key: str, step: int) -> None:
    st.session_state[key] = step
