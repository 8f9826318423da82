"""The player as a Streamlit component."""

from __future__ import annotations

import streamlit as st

from viz.player.html_page import CSS, MOUNT, State
from viz.player.modules import one_script
from viz.shared import theme

_component = st.components.v2.component(
    "flash_attention_player", html=MOUNT, css=CSS, js=one_script("component.js")
)

_lanes_component = st.components.v2.component(
    "flash_attention_lanes", html=MOUNT, css=CSS, js=one_script("lanes_component.js")
)


def show_player(data: dict, key: str, state: State, runs_rows: bool = False) -> State:
    """Mount the player in a state; returns its state at last. `runs_rows`: the page can run a row again."""
    mounted = {"run": data, "state": state, "runs_rows": runs_rows}
    result = _component(key=key, data=mounted, default={"where": None}, on_where_change=lambda: None)
    where = result.where
    return where["state"] if where and where["run"] == data["id"] else state


def show_lanes(data: dict, key: str) -> None:
    """Lanes of `lanes_data(...)` without a player."""
    _lanes_component(key=key, data={"lanes": data, "palettes": theme.palettes_for_player()})
