"""Errors of each tensor beside what the rule allows, and the histogram of O in units in the last place.

Pure: data -> figure.
"""

from __future__ import annotations

import math

import plotly.graph_objects as go

from kernels.check.report.report import ULP_LABELS
from kernels.check.result import CheckResult, TensorCheck
from viz.shared import theme
from viz.shared.figures.charts import POWERS, chart, line, note, points

MARKS = {
    "this kernel": ("max_error", "flash", 13, "circle", 1),
    "low-precision reference": ("naive_max_error", "standard", 13, "diamond", 1),
    "allowed": ("tolerance", "text", 22, "line-ns-open", 3),
}
"""Kinds of points in the chart of errors: field of TensorCheck, palette entry, size, symbol, edge."""


def errors_figure(result: CheckResult, colors: theme.Palette) -> go.Figure:
    """One line per tensor, log axis: largest error of the kernel, of the reference, and what is allowed."""
    tensors = result.tensors[::-1]
    traces = []
    for tensor in tensors:  # from the kernel's error to what is allowed
        ends, names = [tensor.max_error, tensor.tolerance], [tensor.name] * 2
        if all(map(_on_axis, ends)):
            traces.append(line(ends, names, _color(tensor, colors), 3, hoverinfo="skip", showlegend=False))
    for name, (field, entry, size, symbol, width) in MARKS.items():
        errors = {tensor.name: getattr(tensor, field) for tensor in tensors}
        shown = {of: error for of, error in errors.items() if _on_axis(error)}
        edge = {"width": width, "color": getattr(colors, entry)}
        hover = f"{name}: %{{x:.2e}}<extra>%{{y}}</extra>"
        marks = (list(shown.values()), list(shown), edge["color"], size, symbol, edge)
        traces.append(points(*marks, name=name, hovertemplate=hover))
    x = POWERS | {"title_text": "largest |error| against float64"}
    y = {"categoryorder": "array", "categoryarray": [tensor.name for tensor in tensors]}
    figure = chart(traces, colors, 120 + 38 * max(len(tensors), 2), "", x, y)
    for tensor in tensors:
        if not _on_axis(tensor.max_error):
            wrong = f"NaN or infinity in {tensor.wrong_nonfinite:,} elements"
            words = wrong if tensor.max_error else "no error"
            color = _color(tensor, colors)
            note(figure, words, 1, xref="paper", xanchor="right", y=tensor.name, font_color=color)
    return figure


def _on_axis(value: float) -> bool:
    return 0 < value < math.inf


def _color(tensor: TensorCheck, colors: theme.Palette) -> str:
    return colors.good if tensor.passes else colors.bad


def ulps_figure(tensor: TensorCheck, colors: theme.Palette) -> go.Figure:
    """Share of the elements by how many units in the last place they are off."""
    kinds = (
        ("this kernel", colors.flash, tensor.ulps),
        ("low-precision reference", colors.standard, tensor.naive_ulps),
    )
    bars = [
        go.Bar(
            x=ULP_LABELS,
            y=[count / max(sum(counts), 1) for count in counts],
            customdata=counts,
            name=name,
            marker_color=color,
            hovertemplate="%{y:.2%} of the elements (%{customdata:,})<extra>" + name + "</extra>",
        )
        for name, color, counts in kinds
    ]
    x = {"title_text": "error in units in the last place", "type": "category"}
    y = {"tickformat": ".0%", "rangemode": "tozero"}
    return chart(bars, colors, 310, "", x, y, barmode="group", bargap=0.25)
