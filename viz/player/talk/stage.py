"""A talk as a Streamlit component that fills the window."""

import streamlit as st

from viz.player.html_page import CSS, one_script
from viz.player.talk.data import TALK_CSS, TALK_MOUNT, without_notes

_component = st.components.v2.component(
    "flash_attention_talk", html=TALK_MOUNT, css=CSS + TALK_CSS, js=one_script("talk_component.js")
)


def show_talk(data: dict, speaker: bool = False) -> None:
    """The stage of `talk_data(...)`, or the speaker's window; only that one is given the notes."""
    _component(
        key=f"talk-{data['id']}-{speaker}",
        data={"talk": without_notes(data), "notes": data["notes"] if speaker else None},
    )
