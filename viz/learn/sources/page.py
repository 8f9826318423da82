"""The last page: the slips of the sources with the right line beside each, and the reading list."""

from __future__ import annotations

import streamlit as st

from kernels.references import READ_ON, REFERENCES, Reference
from viz.learn.words import Words, table

WORDS = Words(__file__)


def show() -> None:
    """Draw the page."""
    WORDS.draw("start", reading=_reading)


def _reading() -> None:
    with st.expander(
        "Reading list: every source that this app cites", icon=":material/menu_book:", expanded=True
    ):
        rows = ((source.key, _title(source), source.why) for source in REFERENCES)
        WORDS.draw(
            "reading list",
            sources=table("Cited as | Source | Used for", rows),
            links="\n".join(f"- [{link.name}]({link.url}): {link.why}" for link in READ_ON),
        )


def _title(source: Reference) -> str:
    title = f"[{source.title}]({source.url})" if source.url else source.title
    return f"{source.authors}, {title}, {source.where}"
