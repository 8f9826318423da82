"""The sources of the whole project, on the last page."""

from __future__ import annotations

import streamlit as st

from kernels.references import READ_ON, REFERENCES, Reference


def reading_list() -> None:
    """A table of all sources: how they are cited, their titles with links, and what they are used for."""
    with st.expander(
        "Reading list: every source that this app cites", icon=":material/menu_book:", expanded=True
    ):
        rows = [f"| {source.key} | {_title(source)} | {source.why} |" for source in REFERENCES]
        st.markdown("\n".join(["| Cited as | Source | Used for |", "|:--|:--|:--|", *rows]))
        st.markdown("**To read on**: implementations, texts and a lecture")
        st.markdown("\n".join(f"- [{link.name}]({link.url}): {link.why}" for link in READ_ON))


def _title(source: Reference) -> str:
    title = f"[{source.title}]({source.url})" if source.url else source.title
    return ", ".join(part for part in (source.authors, title, source.where) if part)
