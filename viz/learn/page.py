"""Learn: short chapters, one idea each, computed from the reader's own numbers."""

from __future__ import annotations

import streamlit as st

from viz.learn.chapters import CHAPTERS
from viz.learn.url_state import switch_in_url
from viz.shared import runs
from viz.shared.layout import header

header("Learn", runs.run_store())
chapters = {chapter.slug: chapter for chapter in CHAPTERS}
names = {chapter.slug: f"{number} {chapter.title}" for number, chapter in enumerate(CHAPTERS, 1)}
chosen = switch_in_url(
    "Chapter",
    list(chapters),
    "chapter",
    CHAPTERS[0].slug,
    shown=names.__getitem__,
    label_visibility="collapsed",
)
st.subheader(chapters[chosen].idea, anchor=False)
chapters[chosen].show()
st.caption(
    "Each number says where it is from. **Counted**: by the code that ran, kernel or loop. **Modelled**: a "
    "formula. **Measured**: what a run on this machine gave, such as a time, or an error against a "
    "reference. **Recorded**: counted or measured on the GPU that is named, at the date that is named. "
    "Here: on the machine that runs this app."
)
