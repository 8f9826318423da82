"""Errors of each tensor beside what the rule allows, and the histogram of O in units in the last place. Pure: data -> figure."""

from __future__ import annotations

import math

import plotly.graph_objects as go

from kernels.check.report_pictures import ulp_labels
from kernels.check.result import CheckResult, TensorCheck
from viz.shared import theme

MARKS = (
    ("this kernel", "flash", "circle", lambda tensor: tensor.max_error),
    ("low-precision reference", "standard", "diamond", lambda tensor: tensor.naive_max_error),
    ("allowed", "text", "line-ns-open", lambda tensor: tensor.tolerance),
)


def errors_figure(result: CheckResult, colors: theme.Palette) -> go.Figure:
    """One line a tensor, log axis: largest error of the kernel, of the reference, and the most that passes."""
    tensors = result.tensors[::-1]
    figure = go.Figure()
    for tensor in tensors:
        ends = [value for value in (tensor.max_error, tensor.tolerance) if 0 < value < math.inf]
        if len(ends) == 2:
            line = {"color": colors.good if tensor.passes else colors.bad, "width": 3}
            figure.add_scatter(
                x=ends, y=[tensor.name] * 2, mode="lines", line=line, hoverinfo="skip", showlegend=False
            )
    for name, color, symbol, value in MARKS:
        marker = {
            "symbol": symbol,
            "size": 22 if symbol.startswith("line") else 13,
            "color": getattr(colors, color),
        }
        marker["line"] = {"width": 3 if symbol.startswith("line") else 1, "color": getattr(colors, color)}
        shown = [tensor for tensor in tensors if 0 < value(tensor) < math.inf]
        numbers = [value(tensor) for tensor in shown]
        hover = f"{name}: %{{x:.2e}}<extra>%{{y}}</extra>"
        figure.add_scatter(
            x=numbers,
            y=[tensor.name for tensor in shown],
            mode="markers",
            marker=marker,
            name=name,
            hovertemplate=hover,
        )
    for tensor in tensors:
        if words := _off_the_axis(tensor):
            figure.add_annotation(
                x=1,
                xref="paper",
                xanchor="right",
                y=tensor.name,
                text=words,
                showarrow=False,
                font={"color": colors.bad},
            )
    figure.update_xaxes(type="log", title="largest |error| against float64", exponentformat="power", dtick=1)
    figure.update_yaxes(categoryorder="array", categoryarray=[tensor.name for tensor in tensors])
    return theme.style_figure(figure, colors, height=120 + 38 * max(len(tensors), 2))


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
        shares = [count / total for count in counts]
        hover = "%{y:.2%} of the elements (%{customdata:,})<extra>" + name + "</extra>"
        figure.add_bar(
            x=ulp_labels(), y=shares, customdata=counts, name=name, marker_color=color, hovertemplate=hover
        )
    figure.update_layout(barmode="group", bargap=0.25)
    figure.update_xaxes(title="error in units in the last place", type="category")
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    return theme.style_figure(figure, colors, height=310)
