"""Figures of the Traffic chapter: bytes by algorithm, bytes against N, d and SRAM."""

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from viz.shared import theme
from viz.shared.figures import charts
from viz.shared.formats import format_bytes

ByteBars = Mapping[str, tuple[int, int | None, str]]
"""Label -> bytes modelled, bytes counted or None, and palette entry."""


def bytes_figure(bars: ByteBars, least: int, colors: theme.Palette) -> go.Figure:
    """Two bars per algorithm, modelled (hatched) and counted (solid). A line at `least`: each tensor once."""
    modelled, counted, entries = zip(*bars.values(), strict=True)
    fills = [getattr(colors, entry) for entry in entries]
    traces = [
        charts.rows(
            list(bars),
            values,
            name=name,
            marker=charts.hatched(fills, pattern, colors),
            text=["" if value is None else format_bytes(value) for value in values],
            **charts.OUTSIDE,
            constraintext="none",
            hovertemplate=f"%{{y}}<br>%{{x:,}} bytes, {name}<extra></extra>",
        )
        for name, pattern, values in (("counted", "", counted), ("modelled", "/", modelled))
    ]
    longest = max(*modelled, *(each or 0 for each in counted))
    x, y = charts.lengths(longest, 1.38), {"tickfont_size": 15, "ticklabelstandoff": 6, **charts.DOWNWARDS}
    looks = {"legend_y": 1.08, "margin_t": 56, "bargap": 0.25}
    figure = charts.chart(traces, colors, 84 + 62 * len(bars), "", x, y, **looks)
    figure.add_vline(x=least, line={"color": colors.text, "width": 1.5, "dash": "dot"})
    # at the right edge of the plot: beside the line it would be cut off on a narrow screen
    words = f"dotted: each input and result once, {format_bytes(least)}"
    charts.note(figure, words, 1, xref="paper", xanchor="right", y=1, yref="paper", yanchor="bottom")
    return figure


Curves = dict[str, tuple[Sequence[float | None], str, str]]
"""Label -> bytes, None where an algorithm does not fit, palette entry, and dash."""


def growth_figure(
    swept: Sequence[int],
    curves: Curves,
    counted: Mapping[str, Sequence[tuple[float, int]]],
    axis: str,
    here: float,
    colors: theme.Palette,
) -> go.Figure:
    """Modelled lines over the swept values, and counted points (label of the curve -> points), on log axes.

    `here` is marked.
    """
    traces = []
    for label, (moved, entry, dash) in curves.items():
        color, hover = getattr(colors, entry), f"{label}, {axis} = %{{x:,}}: %{{text}}, "
        line = charts.line(
            *(swept, moved, color, 3 if dash == "solid" else 2, dash),
            name=label,
            text=["" if value is None else format_bytes(value) for value in moved],
            hovertemplate=f"{hover}modelled<extra></extra>",
        )
        traces.append(line)
        if of_curve := counted.get(label):
            x, y = zip(*of_curve, strict=True)
            points = charts.points(
                *(x, y, color, 13, "circle", {"color": colors.text, "width": 2}),
                name=f"{label}, counted",
                showlegend=False,
                text=[format_bytes(value) for value in y],
                hovertemplate=f"{hover}counted<extra></extra>",
            )
            traces.append(points)
    ends = [math.log10(min(swept) / 1.1), math.log10(max(swept) * 1.1)]
    across = charts.log_ticks(swept, [f"{value:,}" for value in swept], title=axis, tickangle=0, range=ends)
    up = {"type": "log", "exponentformat": "SI", "ticksuffix": "B", "dtick": 1}
    figure = charts.chart(traces, colors, 360, "", across, up, margin_t=48, margin_r=16)
    return figure.add_vline(x=here, line={"color": colors.now, "width": 1.5, "dash": "dot"})
