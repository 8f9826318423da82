"""All peers at one shape, one bar per peer, for any metric of the sweep."""

from __future__ import annotations

import plotly.graph_objects as go

from kernels.measure.series import PeerCurve
from viz.shared import theme
from viz.shared.figures.sweep import TITLES, curve_values, format_metric, peer_label

LONGEST_REASON = 60
"""Characters of a refusal beside a bar or in a table."""


def point_figure(curves: list[PeerCurve], metric: str, colors: theme.Palette) -> go.Figure:
    """Horizontal bars, the first curve on top. A peer without a value says why."""
    shown = [curve for curve in reversed(curves) if metric != "speedup" or curve.peer != "naive"]
    many = len({curve.source for curve in shown}) > 1
    values = [next((y for _, y in curve_values(curve, curves, metric)), None) for curve in shown]
    labels = [peer_label(curve.peer) + (f" · {curve.source}" if many else "") for curve in shown]
    figure = go.Figure(
        go.Bar(
            x=[value or 0 for value in values],
            y=labels,
            orientation="h",
            marker_color=[theme.peer_color(curve.peer, colors) for curve in shown],
            marker_pattern_shape=["." if curve.source == "measured" and many else "" for curve in shown],
            hoverinfo="skip",
        )
    )
    theme.style_figure(figure, colors, height=90 + 44 * len(shown))
    for curve, label, value in zip(shown, labels, values, strict=True):
        words = format_metric(value, metric) if value is not None else refusal_words(curve, metric)
        figure.add_annotation(x=value or 0, y=label, text=words, showarrow=False, xanchor="left", xshift=8)
    figure.update_xaxes(
        range=[0, 1.45 * max([value or 0 for value in values], default=1) or 1],
        showticklabels=False,
        showgrid=False,
    )
    figure.update_yaxes(showgrid=False)
    figure.update_layout(title={"text": TITLES[metric], "font_size": 15, "y": 0.97}, bargap=0.3)
    return figure


def refusal_words(curve: PeerCurve, metric: str) -> str:
    """Why the last point of a curve has no number."""
    for point in reversed(curve.points):
        if reason := point.result.refused:
            return short_reason(reason)
    return "not measured" if metric == "call" else "no naive attention beside it"


def short_reason(reason: str) -> str:
    """A reason that is longer than LONGEST_REASON ends after a word of it, with "…"."""
    if len(reason) <= LONGEST_REASON:
        return reason
    whole_words = reason[: LONGEST_REASON + 1].rpartition(" ")[0] or reason[:LONGEST_REASON]
    return f"{whole_words.rstrip(' ,;:')}…"
