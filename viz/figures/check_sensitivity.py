"""How the error moves with tile sizes and with the scale of the input. Pure: data -> figure."""

from __future__ import annotations

import math

import plotly.graph_objects as go

from kernels.check_result import SensitivityPoint
from viz import theme


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
    figure.add_scatter(x=labels, y=allowed, mode="lines", line=line, name="allowed", hovertemplate="allowed %{y:.2e}<extra></extra>")
    figure.update_xaxes(title="BLOCK_M × BLOCK_N", type="category")
    figure.update_yaxes(title="largest |error| of O", type="log", exponentformat="power", dtick=1)
    return theme.style_figure(figure, colors, height=320)


def scales_figure(points: tuple[SensitivityPoint, ...], colors: theme.Palette) -> go.Figure:
    """Largest error of O over the factor on the query; a cross at the top marks NaN or infinity where float64 has none."""
    figure = go.Figure()
    factors = [f"2<sup>{point.label.removeprefix('2^')}</sup>" for point in points]
    series = (
        ("this kernel", colors.flash, "solid", [point.max_error for point in points]),
        ("low-precision reference", colors.standard, "solid", [point.naive_max_error for point in points]),
        ("allowed", colors.text, "dash", [point.tolerance for point in points]),
    )
    for name, color, dash, values in series:
        hover = f"{name}: %{{y:.2e}}<br>largest score %{{customdata:.2e}}<extra></extra>"
        figure.add_scatter(
            x=factors, y=[_finite(value) for value in values], mode="lines" if dash == "dash" else "lines+markers", name=name,
            line={"color": color, "dash": dash}, customdata=[point.largest_score for point in points], hovertemplate=hover,
        )  # fmt: skip
    top = max((value for *_, values in series for value in values if 0 < value < math.inf), default=1.0) * 30
    broken = (
        ("this kernel", colors.bad, [point.wrong_nonfinite for point in points]),
        ("naive attention", colors.standard, [point.naive_wrong_nonfinite for point in points]),
    )
    for level, (name, color, wrong) in enumerate(broken):
        at = [factor for factor, count in zip(factors, wrong, strict=True) if count]
        counts = [count for count in wrong if count]
        marker = {"symbol": "x", "size": 12, "color": color}
        hover = f"{name}: %{{customdata:,}} elements NaN or infinite<extra></extra>"
        height = [top / 6**level] * len(at)
        figure.add_scatter(x=at, y=height, mode="markers", marker=marker, name=f"{name}: NaN or infinity", customdata=counts, hovertemplate=hover)
    figure.update_xaxes(title="factor on the query", type="category", categoryorder="array", categoryarray=factors)
    figure.update_yaxes(title="largest |error| of O", type="log", exponentformat="power", dtick=1)
    return theme.style_figure(figure, colors, height=340)


def _finite(value: float) -> float | None:
    return value if 0 < value < math.inf else None
