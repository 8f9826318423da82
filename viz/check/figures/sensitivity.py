"""How the error moves with tile sizes and with the scale of the input. Pure: data -> figure."""

from __future__ import annotations

import math

import plotly.graph_objects as go

from kernels.check.result import SensitivityPoint
from viz.shared import theme


def blocks_figure(points: tuple[SensitivityPoint, ...], colors: theme.Palette) -> go.Figure:
    """Largest error of O for each choice of BLOCK_M x BLOCK_N, below the line of what is allowed."""
    shown = [point for point in points if not point.refused]
    figure = go.Figure()
    labels = [point.label for point in shown]
    colored = [colors.flash if point.passes else colors.bad for point in shown]
    hover = "%{x}: %{y:.2e}<br>differs by up to %{customdata:.1e} from your tiles<extra></extra>"
    figure.add_bar(
        x=labels, y=[_finite(point.max_error) for point in shown], marker_color=colored, name="this kernel",
        customdata=[point.difference for point in shown], hovertemplate=hover, showlegend=False,
    )  # fmt: skip
    allowed = [_finite(point.tolerance) for point in shown]
    line = {"color": colors.text, "dash": "dash"}
    figure.add_scatter(
        x=labels,
        y=allowed,
        mode="lines",
        line=line,
        name="allowed",
        hovertemplate="allowed %{y:.2e}<extra></extra>",
    )
    figure.update_xaxes(title="BLOCK_M × BLOCK_N", type="category")
    figure.update_yaxes(title="largest |error| of O", rangemode="tozero", exponentformat="e")
    return theme.style_figure(figure, colors, height=340)


def scales_figure(points: tuple[SensitivityPoint, ...], colors: theme.Palette) -> go.Figure:
    """Largest error of O over the factor on the query; a cross at the top marks NaN or infinity where float64 has none.

    An error of 0 has no place on a log axis: it is drawn at the bottom, and said on hover.
    """
    figure = go.Figure()
    factors = [f"2<sup>{point.label.removeprefix('2^')}</sup>" for point in points]
    series = (  # the kernel last, on top
        ("allowed", colors.text, "dash", 2, [point.tolerance for point in points]),
        ("reference", colors.standard, "solid", 6, [point.naive_max_error for point in points]),
        ("this kernel", colors.flash, "solid", 2, [point.max_error for point in points]),
    )
    drawn = [value for *_, values in series for value in values if 0 < value < math.inf]
    floor, top = min(drawn, default=1.0) / 10, max(drawn, default=1.0) * 30
    for name, color, dash, width, values in series:
        hover = f"{name}: %{{customdata[0]:.2e}}<br>largest score %{{customdata[1]:.2e}}<extra></extra>"
        figure.add_scatter(
            x=factors, y=[max(value, floor) if value < math.inf else None for value in values], mode="lines" if dash == "dash" else "lines+markers",
            name=name, line={"color": color, "dash": dash, "width": width}, hovertemplate=hover,
            customdata=[(value, point.largest_score) for value, point in zip(values, points, strict=True)],
        )  # fmt: skip
    broken = (
        ("this kernel", colors.bad, [point.wrong_nonfinite for point in points]),
        ("reference", colors.standard, [point.naive_wrong_nonfinite for point in points]),
    )
    for level, (name, color, wrong) in enumerate(broken):
        at = [factor for factor, count in zip(factors, wrong, strict=True) if count]
        marker = {"symbol": "x", "size": 12, "color": color}
        figure.add_scatter(
            x=at, y=[top / 6**level] * len(at), mode="markers", marker=marker, name=f"NaN: {name}", customdata=[count for count in wrong if count],
            hovertemplate=f"{name}: %{{customdata:,}} elements NaN or infinite<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(
        title="factor on the query", type="category", categoryorder="array", categoryarray=factors
    )
    figure.update_yaxes(title="largest |error| of O", type="log", exponentformat="power", dtick=1)
    return theme.style_figure(figure, colors, height=340)


def _finite(value: float) -> float | None:
    return value if value < math.inf else None
