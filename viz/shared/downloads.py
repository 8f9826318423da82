"""Files that a page lets the reader take along."""

from __future__ import annotations

import mimetypes
from collections.abc import Callable

import streamlit as st

PLAYER, TRACE = "Player as one HTML file", "Trace (.npz)"
TIMELINE, REPORT = "SM timeline for Perfetto (.json)", "Report as one HTML file"
ICONS = {PLAYER: "slideshow", TIMELINE: "view_timeline", REPORT: "lab_profile"}


def download(label: str, content: Callable[[], str | bytes], file_name: str, words: str = "") -> None:
    """A button for one file, whose content is made when it is asked for; `words` is the help text."""
    st.download_button(
        label,
        content,
        file_name,
        mimetypes.guess_type(file_name)[0],
        icon=f":material/{ICONS.get(label, 'download')}:",
        on_click="ignore",
        help=words or None,
    )
