"""Errors of each tensor, O in units in the last place, and how the error moves with tiles and scale.

Pure: data -> figure.
"""

from __future__ import annotations

import math

import plotly.graph_objects as go

from kernels.check.report.report import ULP_LABELS
from kernels.check.result import CheckResult, SensitivityPoint, TensorCheck
from viz.shared import theme
from viz.shared.figures.charts import POWERS, chart, line, note, points

MARKS = {
    "this kernel": ("max_error", "flash", 13, "circle", 1),
    "low-precision reference": ("naive_max_error", "standard", 13, "diamond", 1),
    "allowed": ("tolerance", "text", 22, "line-ns-open", 3),
}
"""Kinds of points in the chart of errors: field of TensorCheck, palette entry, size, symbol, edge."""
Points = tuple[SensitivityPoint, ...]
SCALE_HOVER = ": %{customdata[0]:.2e}<br>largest score %{customdata[1]:.2e}<extra></extra>"


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


def blocks_figure(sizes: Points, colors: theme.Palette) -> go.Figure:
    """Largest error of O for each choice of BLOCK_M x BLOCK_N, below the line of what is allowed."""
    shown = [point for point in sizes if not point.refused]
    labels = [point.label for point in shown]
    bars = go.Bar(
        x=labels,
        y=[_finite(point.max_error) for point in shown],
        marker_color=[colors.flash if point.passes else colors.bad for point in shown],
        name="this kernel",
        customdata=[point.difference for point in shown],
        hovertemplate="%{x}: %{y:.2e}<br>differs by up to %{customdata:.1e} from your tiles<extra></extra>",
        showlegend=False,
    )
    tolerances, hover = [_finite(point.tolerance) for point in shown], "allowed %{y:.2e}<extra></extra>"
    allowed = line(labels, tolerances, colors.text, dash="dash", name="allowed", hovertemplate=hover)
    x = {"title_text": "BLOCK_M × BLOCK_N", "type": "category"}
    y = {"title_text": "largest |error| of O", "rangemode": "tozero", "exponentformat": "e"}
    return chart([bars, allowed], colors, 340, "", x, y)


def _finite(value: float) -> float | None:
    return value if value < math.inf else None


def scales_figure(scales: Points, colors: theme.Palette) -> go.Figure:
    """Largest error of O over the factor on the query, on log axes.

    A cross at the top marks NaN or infinity that float64 does not have, and no error is drawn there. An error
    of 0 is drawn at the bottom; its hover text says 0.
    """
    exponents = [int(point.label.removeprefix("2^")) for point in scales]
    wrong = {
        "reference": [point.naive_wrong_nonfinite for point in scales],
        "this kernel": [point.wrong_nonfinite for point in scales],
    }
    errors = {
        "allowed": [point.tolerance for point in scales],
        "reference": [math.inf if point.naive_wrong_nonfinite else point.naive_max_error for point in scales],
        "this kernel": [math.inf if point.wrong_nonfinite else point.max_error for point in scales],
    }  # the kernel last, so that it lies on top
    drawn = [value for values in errors.values() for value in values if 0 < value < math.inf]
    floor, top = min(drawn, default=1.0) / 10, max(drawn, default=1.0) * 30
    looks = ((colors.text, 2, "dash"), (colors.standard, 6, "solid"), (colors.flash, 2, "solid"))
    traces = [
        line(
            exponents,
            [_finite(max(value, floor)) for value in values],
            *look,
            mode="lines" if name == "allowed" else "lines+markers",
            name=name,
            hovertemplate=name + SCALE_HOVER,
            customdata=[(value, point.largest_score) for value, point in zip(values, scales, strict=True)],
        )
        for (name, values), look in zip(errors.items(), looks, strict=True)
    ]
    for name, color, height in (("this kernel", colors.bad, top), ("reference", colors.standard, top / 6)):
        bad = {exponent: count for exponent, count in zip(exponents, wrong[name], strict=True) if count}
        hover = f"{name}: %{{customdata:,}} elements NaN or infinite<extra></extra>"
        marks = ([*bad], [height] * len(bad), color, 12, "x")
        traces.append(points(*marks, name=f"NaN: {name}", customdata=[*bad.values()], hovertemplate=hover))
    words = [f"2<sup>{exponent}</sup>" for exponent in exponents]
    x = {"title_text": "factor on the query", "tickvals": exponents, "ticktext": words}
    return chart(traces, colors, 340, "", x, POWERS | {"title_text": "largest |error| of O"})
