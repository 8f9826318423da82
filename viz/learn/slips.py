"""Every slip of the sources in one table, on the last page."""

from __future__ import annotations

import streamlit as st

from kernels.lessons.slips import slips


def slips_table() -> None:
    """What is printed, and the right line beside it."""
    rows = [f"| {slip.source} | {slip.printed} | {slip.right} | {slip.shows} |" for slip in slips()]
    head = "| Source | Printed | Right | Shown in |"
    st.markdown("\n".join([head, "|:--|:--|:--|:--|", *rows]))
    st.caption(
        "Numbers: the row 3, 2, 5, 1 in the blocks 3, 2 and 5, 1 with the values 1, 2, 3, 4, "
        "**measured** by running each line in float64; the times are **modelled**."
    )
