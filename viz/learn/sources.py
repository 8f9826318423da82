"""The last page: errata of the sources, with what shows them, and the reading list."""

from __future__ import annotations

import streamlit as st

from viz.learn.errata import errata
from viz.learn.reading_list import reading_list
from viz.learn.slips import slips_table


def show() -> None:
    """Draw the page."""
    st.markdown(
        "The chapters show what is right. Here is what the sources print otherwise: nobody has to read it to "
        "understand FlashAttention, but who reads a source beside this app will want it. The sources call "
        "the number of queries and keys T; it is N here."
    )
    slips_table()
    errata()
    reading_list()
