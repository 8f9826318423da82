"""Figures in a row of cards, each with what it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import streamlit as st

Color = Literal["green", "red", "off"]


@dataclass(frozen=True)
class Card:
    """One figure: its label, its value, what it is compared with, and more in the help."""

    label: str
    value: str
    comparison: str = ""
    explained: str = ""
    color: Color = "off"


def verdict_color(passes: bool) -> Color:
    """Green for what passes."""
    return "green" if passes else "red"


def draw_cards(cards: list[Card]) -> None:
    """The cards in one row."""
    row = st.container(horizontal=True, gap="small", key="figures")
    for each in cards:
        row.metric(
            each.label,
            each.value,
            each.comparison or None,
            delta_color=each.color,
            delta_arrow="off",
            help=each.explained or None,
            border=True,
        )
