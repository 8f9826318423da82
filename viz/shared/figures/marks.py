"""Pieces that the charts of several pages share."""

from __future__ import annotations

import plotly.graph_objects as go

from viz.shared import theme


def hatched(color: str | list[str], pattern: str | list[str], colors: theme.Palette) -> dict:
    """The marker of a bar: a colour, and a pattern of Plotly over it ("" for none).

    On all pages "/" means modelled. "x" and "." tell bars apart without their colours, as their legend says.
    """
    return {
        "color": color,
        "pattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": colors.background, "size": 6},
    }


def set_title(figure: go.Figure, text: str) -> None:
    """A title above the chart, as small as its labels."""
    figure.update_layout(title={"text": text, "font_size": 15, "y": 0.98})
