"""Errors of each tensor beside what the rule allows, and the histogram of O in units in the last place.

Pure: data -> figure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import plotly.graph_objects as go

from kernels.check.report_pictures import ulp_labels
from kernels.check.result import CheckResult, TensorCheck
from viz.shared import theme


@dataclass(frozen=True)
class Mark:
    """One kind of point in the chart of errors."""

    name: str
    color: str
    """Field of the palette."""
    symbol: str
    size: int
    edge: int
    value: Callable[[TensorCheck], float]


MARKS = (
    Mark("this kernel", "flash", "circle", 13, 1, lambda tensor: tensor.max_error),
    Mark("low-precision reference", "standard", "diamond", 13, 1, lambda tensor: tensor.naive_max_error),
    Mark("allowed", "text", "line-ns-open", 22, 3, lambda tensor: tensor.tolerance),
)


def errors_figure(result: CheckResult, colors: theme.Palette) -> go.Figure:
    """One line per tensor, log axis: largest error of the kernel, of the reference, and what is allowed."""
    tensors = result.tensors[::-1]
    figure = go.Figure()
    for tensor in tensors:
        _add_line(figure, tensor, colors)
    for mark in MARKS:
        _add_points(figure, mark, [tensor for tensor in tensors if _on_axis(mark.value(tensor))], colors)
    for tensor in tensors:
        if words := _off_the_axis(tensor):
            figure.add_annotation(
                x=1,
                xref="paper",
                xanchor="right",
                y=tensor.name,
                text=words,
                showarrow=False,
                font={"color": colors.bad if tensor.max_error else colors.good},
            )
    figure.update_xaxes(type="log", title="largest |error| against float64", exponentformat="power", dtick=1)
    figure.update_yaxes(categoryorder="array", categoryarray=[tensor.name for tensor in tensors])
    return theme.style_figure(figure, colors, height=120 + 38 * max(len(tensors), 2))


def _on_axis(value: float) -> bool:
    return 0 < value < math.inf


def _add_line(figure: go.Figure, tensor: TensorCheck, colors: theme.Palette) -> None:
    """From the kernel's error to what is allowed."""
    ends = [tensor.max_error, tensor.tolerance]
    if all(map(_on_axis, ends)):
        line = {"color": colors.good if tensor.passes else colors.bad, "width": 3}
        figure.add_scatter(
            x=ends, y=[tensor.name] * 2, mode="lines", line=line, hoverinfo="skip", showlegend=False
        )


def _add_points(figure: go.Figure, mark: Mark, tensors: list[TensorCheck], colors: theme.Palette) -> None:
    color = getattr(colors, mark.color)
    figure.add_scatter(
        x=[mark.value(tensor) for tensor in tensors],
        y=[tensor.name for tensor in tensors],
        mode="markers",
        marker={
            "symbol": mark.symbol,
            "size": mark.size,
            "color": color,
            "line": {"width": mark.edge, "color": color},
        },
        name=mark.name,
        hovertemplate=f"{mark.name}: %{{x:.2e}}<extra>%{{y}}</extra>",
    )


def _off_the_axis(tensor: TensorCheck) -> str:
    if math.isinf(tensor.max_error):
        return f"NaN or infinity in {tensor.wrong_nonfinite:,} elements"
    return "" if tensor.max_error else "no error at all"


def ulps_figure(tensor: TensorCheck, colors: theme.Palette) -> go.Figure:
    """Share of the elements by how many units in the last place they are off."""
    figure = go.Figure()
    for name, color, counts in (
        ("this kernel", colors.flash, tensor.ulps),
        ("low-precision reference", colors.standard, tensor.naive_ulps),
    ):
        total = max(sum(counts), 1)
        figure.add_bar(
            x=ulp_labels(),
            y=[count / total for count in counts],
            customdata=counts,
            name=name,
            marker_color=color,
            hovertemplate="%{y:.2%} of the elements (%{customdata:,})<extra>" + name + "</extra>",
        )
    figure.update_layout(barmode="group", bargap=0.25)
    figure.update_xaxes(title="error in units in the last place", type="category")
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    return theme.style_figure(figure, colors, height=310)
