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
        for index, (name, moved) in enumerate(total.parts):
            # Every second part of a bar is paler, so that neighbours are told apart.
            look = {"opacity": 0.62 if index % 2 else 1.0, "line": {"color": colors.background, "width": 1.5}}
            filled = colors.muted if total.kind == "compulsory" else color
            marker = hatched(filled, PATTERNS[total.kind], colors) | look
            words = f"{name}: {format_bytes(moved)}<br>{total.origin}: {total.source}"
            bars.append(rows([_label(total)], [moved], marker=marker, hovertext=words, hoverinfo="text"))
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
