"""Formulas side by side, which wrap if the page is narrow."""

from __future__ import annotations

import streamlit as st


def formulas(*tex: str) -> None:
    """Each piece of LaTeX beside the one before it."""
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        for piece in tex:
            st.latex(piece, width="content")
