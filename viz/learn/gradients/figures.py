"""Chart of the Gradients chapter: the error if each block has its own D."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from viz.learn.gradients.maths import BlockError
from viz.shared import theme
from viz.shared.figures.charts import chart, framed, hatched

SERIES = {
    "dS": ("d_scores", "output", ""),
    "dQ": ("d_query", "query", "x"),
    "dK": ("d_key", "key", "."),
}
"""By name: the field of BlockError, the palette entry, and the pattern."""


def block_error_figure(errors: Sequence[BlockError], chosen: int, colors: theme.Palette) -> go.Figure:
    """Bars of the relative error of dS, dQ and dK over the block size; the chosen size has a frame."""
    is_chosen = [error.block == chosen for error in errors]
    bars = [
        go.Bar(
            name=name,
            x=[str(error.block) for error in errors],
            y=[getattr(error, field) for error in errors],
            marker=hatched("", pattern, colors) | framed(getattr(colors, color), is_chosen, colors),
            hovertemplate=f"block of %{{x}} keys: error of {name} is %{{y:.2g}} of its largest value"
            "<extra></extra>",
        )
        for name, (field, color, pattern) in SERIES.items()
    ]
    title = "largest error, as a share of the largest right value"
    x = {"title": "keys in a block (last: the whole row)", "type": "category"}
    y = {"tickformat": ".0%", "rangemode": "tozero", "nticks": 6}
    return chart(bars, colors, 300, title, x, y, margin_t=66, bargap=0.25)
