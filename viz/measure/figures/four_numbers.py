"""The bytes of one attention call as four bars: modelled, requested, compulsory, DRAM."""

from __future__ import annotations

import plotly.graph_objects as go

from kernels.measure.four_numbers import FourTotals, TrafficTotal
from viz.shared import theme
from viz.shared.figures.charts import BEHIND, DOWNWARDS, chart, hatched, lengths, note, rows
from viz.shared.formats import format_bytes

PATTERNS = {"modelled": "/", "requested": "", "compulsory": ".", "DRAM": ""}


def four_numbers_figure(title: str, totals: FourTotals, color: str, colors: theme.Palette) -> go.Figure:
    """One bar per total, cut into the kernels or operations it is the sum of. A missing total says why."""
    bars = []
    for total in totals:
        if not total.parts:  # so that it has a row for its reason
            bars.append(rows([_label(total)], [0], hoverinfo="skip"))
        for index, part in enumerate(total.parts):
            marker = _marker(total.kind, index, color, colors)
            words = f"{part.name}: {format_bytes(part.bytes)}<br>{total.origin}: {total.source}"
            bars.append(rows([_label(total)], [part.bytes], marker=marker, hovertext=words, hoverinfo="text"))
    x, y = lengths(max(total.bytes or 0 for total in totals), 1.32), DOWNWARDS | {"tickfont_size": 14}
    layout = {"barmode": "stack", "bargap": 0.28, "showlegend": False, "margin_t": 34}
    figure = chart(bars, colors, 60 + 62 * len(totals), title, x, y, **layout)
    for total in totals:
        words = total.missing if total.bytes is None else format_bytes(total.bytes)
        font = {"size": 13, "color": colors.muted} if total.bytes is None else {"size": 15}
        note(figure, words, total.bytes or 0, y=_label(total), font=font, **BEHIND)
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
