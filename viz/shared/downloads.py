"""Files that a page lets the reader take along. Their content is made when one is asked for."""

from __future__ import annotations

import mimetypes
from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

PLAYER, TRACE = "Player as one HTML file", "Trace (.npz)"


@dataclass(frozen=True)
class Download:
    """One file: the label of its button, how its content is made, its name and what it is for."""

    label: str
    content: Callable[[], str | bytes]
    file_name: str
    help: str = ""
    icon: str = ""


def downloads(*files: Download) -> None:
    """A row of buttons."""
    with st.container(horizontal=True):
        for each in files:
            icon = ":material/slideshow:" if each.label == PLAYER else ":material/download:"
            st.download_button(
                each.label,
                each.content,
                each.file_name,
                mimetypes.guess_type(each.file_name)[0],
                icon=each.icon or icon,
                on_click="ignore",
                help=each.help or None,
            )
