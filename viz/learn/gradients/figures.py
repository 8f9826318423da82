"""Chart of the Gradients chapter: the error if each block has its own D."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from viz.shared import theme
from viz.shared.figures.charts import chart, framed, hatched

LOOKS = {"dS": ("output", ""), "dQ": ("query", "x"), "dK": ("key", ".")}


def block_error_figure(
    errors: Sequence[Mapping[str, float]], chosen: int, colors: theme.Palette
) -> go.Figure:
    """Bars of the relative error of dS, dQ and dK over the block size; the chosen size has a frame."""
    blocks = [str(block) for block in range(1, len(errors) + 1)]
    is_chosen = [block == str(chosen) for block in blocks]
    bars = [
        go.Bar(
            name=name,
            x=blocks,
            y=[error[name] for error in errors],
            marker=hatched("", pattern, colors) | framed(getattr(colors, color), is_chosen, colors),
            hovertemplate=f"block of %{{x}} keys: error of {name} is %{{y:.2g}} of its largest value"
            "<extra></extra>",
        )
        for name, (color, pattern) in LOOKS.items()
    ]
    title = "largest error, as a share of the largest right value"
    x = {"title": "keys in a block (last: the whole row)", "type": "category"}
    y = {"tickformat": ".0%", "rangemode": "tozero", "nticks": 6}
    return chart(bars, colors, 300, title, x, y, margin_t=66, bargap=0.25)
