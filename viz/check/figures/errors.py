"""Errors of each tensor beside what the rule allows, and the histogram of O in units in the last place.

Pure: data -> figure.
"""

from __future__ import annotations

import math

import plotly.graph_objects as go

from kernels.check.report.tables import ulp_labels
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
        ends = [tensor.max_error, tensor.tolerance]
        if all(map(_on_axis, ends)):
            color, names = colors.good if tensor.passes else colors.bad, [tensor.name] * 2
            traces.append(line(ends, names, color, 3, hoverinfo="skip", showlegend=False))
    for name, (field, entry, size, symbol, edge) in MARKS.items():
        errors = {tensor.name: getattr(tensor, field) for tensor in tensors}
        shown, color = {of: error for of, error in errors.items() if _on_axis(error)}, getattr(colors, entry)
        traces.append(
            points(
                *(list(shown.values()), list(shown), color, size, symbol, {"width": edge, "color": color}),
                name=name,
                hovertemplate=f"{name}: %{{x:.2e}}<extra>%{{y}}</extra>",
            )
        )
    x = POWERS | {"title_text": "largest |error| against float64"}
    y = {"categoryorder": "array", "categoryarray": [tensor.name for tensor in tensors]}
    figure = chart(traces, colors, 120 + 38 * max(len(tensors), 2), "", x, y)
    for tensor in tensors:
        if not _on_axis(tensor.max_error):
            is_nan = math.isinf(tensor.max_error)
            words = f"NaN or infinity in {tensor.wrong_nonfinite:,} elements" if is_nan else "no error at all"
            color = colors.bad if is_nan else colors.good
            note(figure, words, 1, xref="paper", xanchor="right", y=tensor.name, font_color=color)
    return figure


def _on_axis(value: float) -> bool:
    return 0 < value < math.inf


def ulps_figure(tensor: TensorCheck, colors: theme.Palette) -> go.Figure:
    """Share of the elements by how many units in the last place they are off."""
    bars = [
        go.Bar(
            x=ulp_labels(),
            y=[count / max(sum(counts), 1) for count in counts],
            customdata=counts,
            name=name,
            marker_color=color,
            hovertemplate="%{y:.2%} of the elements (%{customdata:,})<extra>" + name + "</extra>",
        )
        for name, color, counts in (
            ("this kernel", colors.flash, tensor.ulps),
            ("low-precision reference", colors.standard, tensor.naive_ulps),
        )
    ]
    x = {"title_text": "error in units in the last place", "type": "category"}
    y = {"tickformat": ".0%", "rangemode": "tozero"}
    return chart(bars, colors, 310, "", x, y, barmode="group", bargap=0.25)
