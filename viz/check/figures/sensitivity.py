"""How the error moves with tile sizes and with the scale of the input. Pure: data -> figure."""

from __future__ import annotations

import math

import plotly.graph_objects as go

from kernels.check.result import SensitivityPoint
from viz.shared import theme
from viz.shared.figures.charts import POWERS, chart, line, points

Points = tuple[SensitivityPoint, ...]
SCALE_HOVER = ": %{customdata[0]:.2e}<br>largest score %{customdata[1]:.2e}<extra></extra>"


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
