"""Learn: short chapters, one idea each, computed from the reader's own numbers."""

from __future__ import annotations

import importlib

import streamlit as st

from viz.learn import CHAPTERS
from viz.shared import runs
from viz.shared.layout import header

store = runs.run_store()
header("Learn", store)
by_slug = {chapter.slug: chapter for chapter in CHAPTERS}


def _to_url() -> None:
    st.query_params["chapter"] = st.session_state["chapter"]


asked = st.query_params.get("chapter")
if asked in by_slug:
    st.session_state["chapter"] = asked
slug = st.segmented_control(
    "Chapter",
    list(by_slug),
    default=CHAPTERS[0].slug,
    required=True,
    format_func=lambda slug: f"{list(by_slug).index(slug) + 1} {by_slug[slug].title}",
    key="chapter",
    on_change=_to_url,  # not bound: a bound widget would put its words in the URL, not the slug
    label_visibility="collapsed",
)
chapter = by_slug[slug]
st.subheader(chapter.idea, anchor=False)
importlib.import_module(f"viz.learn.{chapter.slug}").show()
