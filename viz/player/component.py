"""The player and the stage of a talk as Streamlit components."""

import functools

import streamlit as st

from kernels.device.gpus import Gpu
from viz.player.data import duel_data
from viz.player.html_page import CSS, MOUNT, State, one_script
from viz.player.talk.data import TALK_CSS, TALK_MOUNT, without_notes
from viz.shared import theme
from viz.shared.link import BACKS
from viz.shared.runs import Run

_component = st.components.v2.component(
    "flash_attention_player", html=MOUNT, css=CSS, js=one_script("component.js")
)
_stage = st.components.v2.component(
    "flash_attention_talk", html=TALK_MOUNT, css=CSS + TALK_CSS, js=one_script("talk_component.js")
)


@functools.lru_cache(maxsize=8)
def duel_of(first: Run, second: Run, gpu: Gpu) -> dict:
    """What the player needs of two runs."""
    return duel_data((first.trace, first.provenance), (second.trace, second.provenance), gpu)


def show_player(data: dict, key: str, state: State, runs_rows: bool = False) -> State:
    """Mount the player in a state; returns its state at last. `runs_rows`: the page can run a row again."""
    key += str(st.session_state.get(BACKS, 0))  # after Back another one, which knows no state but the URL's
    where = st.session_state.get(key, {}).get("where")
    if where and where["title"] == data["title"]:
        state = where["state"]
    mounted = {"run": data, "state": state, "runs_rows": runs_rows}
    _component(key=key, data=mounted, default={"where": None}, on_where_change=lambda: None)
    return state


def show_lanes(data: dict, key: str) -> None:
    """Lanes of `lanes_data(...)` without a player, and without the table of their figures."""
    lanes = data | {"figures": []}
    _component(key=key, data={"run": {"lanes": lanes, "palettes": theme.palettes_for_player()}})


def show_talk(data: dict, speaker: bool = False) -> None:
    """The stage of `talk_data(...)`, or the speaker's window; only that one is given the notes."""
    shown = {"talk": without_notes(data), "notes": data["notes"] if speaker else None}
    _stage(key=f"talk-{data['id']}-{speaker}", data=shown)
