"""Forward and back through the steps of a lesson: buttons with keys, and a slider. The step is in the URL."""

from __future__ import annotations

import streamlit as st

from viz.learn.url_state import keep_in_url, put_in_url, take_from_url


def stepper(key: str, count: int, first: int = 1) -> int:
    """The step that the reader chose, 1 to `count`. It starts at `first`; the URL's parameter is `key`."""
    if count == 1:
        st.caption("One block, one step: choose smaller blocks to see more.")
        return 1
    start = min(first, count)
    take_from_url(key, start, lambda text: min(max(int(text), 1), count))
    row = st.container(horizontal=True, vertical_alignment="center", gap="small")
    buttons = row.container(horizontal=True, gap="small", width="content")
    step = row.slider(
        "step",
        1,
        count,
        key=key,
        on_change=keep_in_url,
        args=(key, start),
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
            args=(key, target, start),
            disabled=target == step,
            shortcut=shortcut,
        )
    return step
