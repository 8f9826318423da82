"""Figures in a row of cards, each with what it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import streamlit as st

COLORS: dict[bool | None, Literal["green", "red", "off"]] = {True: "green", False: "red", None: "off"}


@dataclass(frozen=True)
class Card:
    """One figure: its label, its value, what it is compared with, and more in the help."""

    label: str
    value: str
    comparison: str = ""
    explained: str = ""
    passes: bool | None = None
    """None for a figure that nothing judges."""


def draw_cards(cards: list[Card]) -> None:
    """The cards in one row."""
    row = st.container(horizontal=True, gap="small", key="figures")
    for each in cards:
        row.metric(
            each.label,
            each.value,
            each.comparison or None,
            delta_color=COLORS[each.passes],
            delta_arrow="off",
            help=each.explained or None,
            border=True,
        )
