"""Files that a page lets the reader take along. Their content is made when one is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

PLAYER, TRACE = "Player as one HTML file", "Trace (.npz)"
TYPES = {
    "html": ("text/html", ":material/slideshow:"),
    "csv": ("text/csv", ":material/download:"),
    "json": ("application/json", ":material/download:"),
    "npz": ("application/octet-stream", ":material/download:"),
}
"""By the ending of a file's name: its type, and the icon of its button."""


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
            mime, icon = TYPES[each.file_name.rpartition(".")[2]]
            st.download_button(
                each.label,
                each.content,
                each.file_name,
                mime,
                icon=each.icon or icon,
                on_click="ignore",
                help=each.help or None,
            )
