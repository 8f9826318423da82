"""The bytes of one attention call as four bars: modelled, requested, compulsory, DRAM."""

from __future__ import annotations

import plotly.graph_objects as go

from kernels.measure.four_numbers import FourTotals, TrafficTotal
from viz.shared import theme
from viz.shared.figures.marks import hatched
from viz.shared.formats import format_bytes

PATTERNS = {"modelled": "/", "requested": "", "compulsory": ".", "DRAM": ""}


def four_numbers_figure(title: str, totals: FourTotals, color: str, colors: theme.Palette) -> go.Figure:
    """One bar per total, cut into the kernels or operations it is the sum of. A missing total says why."""
    figure = go.Figure()
    for total in totals:
        if not total.parts:  # so that it has a row for its reason
            figure.add_bar(y=[_label(total)], x=[0], orientation="h", hoverinfo="skip")
        for index, part in enumerate(total.parts):
            figure.add_bar(
                y=[_label(total)],
                x=[part.bytes],
                orientation="h",
                marker=_marker(total.kind, index, color, colors),
                hovertext=f"{part.name}: {format_bytes(part.bytes)}<br>{total.origin}: {total.source}",
                hoverinfo="text",
            )
    theme.style_figure(figure, colors, height=60 + 62 * len(totals))
    for total in totals:
        figure.add_annotation(
            x=total.bytes or 0,
            y=_label(total),
            text=total.missing if total.bytes is None else format_bytes(total.bytes),
            font={"size": 13, "color": colors.muted} if total.bytes is None else {"size": 15},
            showarrow=False,
            xanchor="left",
            xshift=8,
        )
    widest = max(total.bytes or 0 for total in totals)
    figure.update_xaxes(range=[0, 1.32 * widest], showticklabels=False, showgrid=False)
    figure.update_yaxes(autorange="reversed", tickfont_size=14, showgrid=False)
    figure.update_layout(
        barmode="stack",
        bargap=0.28,
        showlegend=False,
        title={"text": title, "font_size": 15, "y": 0.98},
        margin_t=34,
    )
    return figure


def _label(total: TrafficTotal) -> str:
    """The kind of a total, and the word for where it is from."""
    return total.kind if total.kind == total.origin else f"{total.kind}<br>({total.origin})"


def _marker(kind: str, index: int, color: str, colors: theme.Palette) -> dict:
    """Every second part of a bar is paler, so that neighbours are told apart."""
    return hatched(colors.muted if kind == "compulsory" else color, PATTERNS[kind], colors) | {
        "opacity": 1.0 if index % 2 == 0 else 0.62,
        "line": {"color": colors.background, "width": 1.5},
    }
