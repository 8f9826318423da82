"""How the error moves with tile sizes and with the scale of the input. Pure: data -> figure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from kernels.check.result import SensitivityPoint
from viz.shared import theme

Points = tuple[SensitivityPoint, ...]
SCALE_HOVER = ": %{customdata[0]:.2e}<br>largest score %{customdata[1]:.2e}<extra></extra>"


def blocks_figure(points: Points, colors: theme.Palette) -> go.Figure:
    """Largest error of O for each choice of BLOCK_M x BLOCK_N, below the line of what is allowed."""
    shown = [point for point in points if not point.refused]
    labels = [point.label for point in shown]
    figure = go.Figure()
    figure.add_bar(
        x=labels,
        y=[_finite(point.max_error) for point in shown],
        marker_color=[colors.flash if point.passes else colors.bad for point in shown],
        name="this kernel",
        customdata=[point.difference for point in shown],
        hovertemplate="%{x}: %{y:.2e}<br>differs by up to %{customdata:.1e} from your tiles<extra></extra>",
        showlegend=False,
    )
    figure.add_scatter(
        x=labels,
        y=[_finite(point.tolerance) for point in shown],
        mode="lines",
        line={"color": colors.text, "dash": "dash"},
        name="allowed",
        hovertemplate="allowed %{y:.2e}<extra></extra>",
    )
    figure.update_xaxes(title="BLOCK_M × BLOCK_N", type="category")
    figure.update_yaxes(title="largest |error| of O", rangemode="tozero", exponentformat="e")
    return theme.style_figure(figure, colors, height=340)


def _finite(value: float) -> float | None:
    return value if value < math.inf else None


def scales_figure(points: Points, colors: theme.Palette) -> go.Figure:
    """Largest error of O over the factor on the query, on log axes.

    A cross at the top marks NaN or infinity that float64 does not have, and no error is drawn there. An error
    of 0 is drawn at the bottom; its hover text says 0.
    """
    exponents = [int(point.label.removeprefix("2^")) for point in points]
    kernel = [None if point.wrong_nonfinite else point.max_error for point in points]
    reference = [None if point.naive_wrong_nonfinite else point.naive_max_error for point in points]
    allowed = [_finite(point.tolerance) for point in points]
    drawn = [value for value in (*allowed, *reference, *kernel) if value and value < math.inf]
    floor, top = min(drawn, default=1.0) / 10, max(drawn, default=1.0) * 30
    figure = go.Figure()

    def add(name: str, color: str, values: Sequence[float | None], dash: str, width: int) -> None:
        figure.add_scatter(
            x=exponents,
            y=[None if value is None or value == math.inf else max(value, floor) for value in values],
            mode="lines" if dash == "dash" else "lines+markers",
            name=name,
            line={"color": color, "dash": dash, "width": width},
            hovertemplate=name + SCALE_HOVER,
            customdata=[(value, point.largest_score) for value, point in zip(values, points, strict=True)],
        )

    add("allowed", colors.text, allowed, "dash", 2)
    add("reference", colors.standard, reference, "solid", 6)
    add("this kernel", colors.flash, kernel, "solid", 2)  # last, so that it lies on top
    _add_crosses(
        figure, "this kernel", colors.bad, exponents, [point.wrong_nonfinite for point in points], top
    )
    wrong = [point.naive_wrong_nonfinite for point in points]
    _add_crosses(figure, "reference", colors.standard, exponents, wrong, top / 6)
    figure.update_xaxes(
        title="factor on the query",
        tickvals=exponents,
        ticktext=[f"2<sup>{exponent}</sup>" for exponent in exponents],
    )
    figure.update_yaxes(title="largest |error| of O", type="log", exponentformat="power", dtick=1)
    return theme.style_figure(figure, colors, height=340)


def _add_crosses(
    figure: go.Figure, name: str, color: str, exponents: list[int], wrong: list[int], height: float
) -> None:
    """Crosses at the powers of two that give wrong NaN or infinity."""
    at = [exponent for exponent, count in zip(exponents, wrong, strict=True) if count]
    figure.add_scatter(
        x=at,
        y=[height] * len(at),
        mode="markers",
        marker={"symbol": "x", "size": 12, "color": color},
        name=f"NaN: {name}",
        customdata=[count for count in wrong if count],
        hovertemplate=f"{name}: %{{customdata:,}} elements NaN or infinite<extra></extra>",
    )
