"""All peers at one shape, one bar per peer, for any metric of the sweep."""

from __future__ import annotations

import plotly.graph_objects as go

from kernels.measure.series import PeerCurve
from viz.shared import theme
from viz.shared.figures.comparison import peer_bars, short_reason
from viz.shared.figures.sweep import TITLES, curve_names, curve_values, format_metric


def point_figure(curves: list[PeerCurve], metric: str, colors: theme.Palette) -> go.Figure:
    """Horizontal bars, the first curve on top. A peer without a value says why."""
    shown = [curve for curve in reversed(curves) if metric != "speedup" or curve.peer != "naive"]
    mixed = len({curve.source for curve in shown}) > 1
    values = [next((y for _, y in curve_values(curve, curves, metric)), None) for curve in shown]
    return peer_bars(
        TITLES[metric],
        [curve.peer for curve in shown],
        curve_names(shown),
        [value or 0 for value in values],
        [
            refusal_words(curve, metric) if value is None else format_metric(value, metric)
            for curve, value in zip(shown, values, strict=True)
        ],
        colors,
        marker_pattern_shape=["." if curve.source == "measured" and mixed else "" for curve in shown],
        hoverinfo="skip",
    )


def refusal_words(curve: PeerCurve, metric: str) -> str:
    """Why the last point of a curve has no number."""
    for point in reversed(curve.points):
        if reason := point.result.refused:
            return short_reason(reason)
    return "not measured" if metric == "call" else "no naive attention beside it"
