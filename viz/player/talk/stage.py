"""A talk as a Streamlit component that fills the window."""

import streamlit as st

from viz.player.html_page import CSS, one_script
from viz.player.talk.data import TALK_CSS, TALK_MOUNT, without_notes

_component = st.components.v2.component(
    "flash_attention_talk", html=TALK_MOUNT, css=CSS + TALK_CSS, js=one_script("talk_component.js")
)


_live_component = st.components.v2.component("flash_attention_live", js=one_script("live_component.js"))


def live_answers(key: str, answer: dict | None) -> None:
    """Tell the stage of this page an answer; its next question is then `st.session_state[key]["asked"]`."""
    _live_component(key=key, data={"answer": answer}, on_asked_change=lambda: None)


def show_talk(data: dict, speaker: bool = False) -> None:
    """The stage of `talk_data(...)`, or the speaker's window; only that one is given the notes."""
    _component(
        key=f"talk-{data['id']}-{speaker}",
        data={"talk": without_notes(data), "notes": data["notes"] if speaker else None},
    )
