"""Charts of the Softmax chapter: where exp overflows, the row sum step by step, weights of the scores."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from kernels.lessons.softmax import OnlineStep
from viz.shared import theme
from viz.shared.figures.marks import hatched
from viz.shared.formats import format_number


def overflow_figure(
    x: np.ndarray, limits: tuple[float, float], number_format: str, colors: theme.Palette
) -> go.Figure:
    """Exponents on two lines, x and x - max(x), with the zones in which exp is infinite or rounds to zero."""
    low, high = limits
    rows = {"x": x, "x − max": x - x.max()}
    everything = np.concatenate([*rows.values(), [low, high]])
    reach = 0.12 * np.ptp(everything)
    left, right = everything.min() - reach, everything.max() + reach
    figure = go.Figure()
    _add_zone(figure, (high, right), colors.bad, "exp is ∞", "right")
    _add_zone(figure, (left, low), colors.muted, "exp is 0", "left")
    for name, values in rows.items():
        outside = (values > high) | (values < low)
        marker = {
            "size": 16,
            "color": np.where(outside, colors.bad, colors.query),
            "symbol": np.where(outside, "x", "circle"),
            "line": {"color": colors.background, "width": 1},
        }
        hover = f"{name} = %{{x:.6g}}<extra></extra>"
        y = [name] * len(values)
        figure.add_scatter(x=values, y=y, mode="markers", name=name, marker=marker, hovertemplate=hover)
    theme.style_figure(figure, colors, height=170)
    smallest, largest = (f"e<sup>{format_number(limit)}</sup>" for limit in limits)
    title = f"exponent: {number_format} holds {smallest} to {largest}"
    figure.update_xaxes(range=[left, right], title=title, showgrid=False, zeroline=True)
    figure.update_yaxes(autorange="reversed", showgrid=False, tickfont_size=16)
    return figure.update_layout(showlegend=False, margin_t=28)


def _add_zone(figure: go.Figure, zone: tuple[float, float], color: str, words: str, side: str) -> None:
    """A band of exponents, named above its outer end."""
    start, end = zone
    figure.add_vrect(start, end, fillcolor=color, opacity=0.16, line_width=0)
    figure.add_annotation(
        x=end if side == "right" else start,
        y=1,
        yref="paper",
        xanchor=side,
        yanchor="bottom",
        text=words,
        showarrow=False,
        font={"color": color, "size": 16},
    )


def sum_figure(steps: tuple[OnlineStep, ...], now: int, colors: theme.Palette) -> go.Figure:
    """The row sum l after each block up to `now`: the rescaled old sum, and on it the terms of the block."""
    seen = steps[: now + 1]
    names = [_name(index) for index in range(len(seen))]
    strength = [0.5] * now + [1.0]
    figure = go.Figure()
    for label, values, color in (
        ("α · old sum", [step.alpha * step.l_before for step in seen], colors.state),
        ("terms of this block", [step.block_sum for step in seen], colors.now),
    ):
        marker = {"color": color, "opacity": strength, "line": {"color": colors.background, "width": 1}}
        figure.add_bar(
            x=names,
            y=values,
            name=label,
            marker=marker,
            hovertemplate=f"%{{x}}, {label}: %{{y:.6g}}<extra></extra>",
        )
    for index, step in enumerate(seen):
        if index and len(steps) <= 16:
            _drop(figure, index, step, len(steps) <= 8, colors)
        if len(steps) <= 16:
            text = f"<b>{format_number(step.l, 4)}</b>"
            figure.add_annotation(
                x=index, y=step.l, text=text, showarrow=False, yanchor="bottom", font_size=16
            )
    _sums(figure, len(steps), max(step.l for step in steps), colors)
    return figure.update_layout(bargap=0.55)


def _drop(figure: go.Figure, index: int, step: OnlineStep, with_text: bool, colors: theme.Palette) -> None:
    """Between two bars: the old sum at its old height, and an arrow down to its rescaled height."""
    after = step.alpha * step.l_before
    for height, start, end in (
        (step.l_before, index - 0.75, index - 0.4),
        (after, index - 0.6, index - 0.25),
    ):
        figure.add_shape(
            type="line",
            x0=start,
            x1=end,
            y0=height,
            y1=height,
            line={"color": colors.state, "dash": "dot", "width": 2},
        )
    if step.alpha < 1:
        arrow = {"showarrow": True, "arrowhead": 2, "arrowwidth": 2, "arrowcolor": colors.state}
        figure.add_annotation(
            x=index - 0.5, y=after, ax=index - 0.5, ay=step.l_before, axref="x", ayref="y", text="", **arrow
        )
    if with_text:
        text = f"× {format_number(step.alpha)}"
        figure.add_annotation(
            x=index - 0.5,
            y=step.l_before,
            text=text,
            showarrow=False,
            yanchor="bottom",
            font={"size": 15, "color": colors.state},
        )


def unscaled_figure(steps: tuple[OnlineStep, ...], now: int, colors: theme.Palette) -> go.Figure:
    """The row sum with and without the rescale, after each block up to `now`."""
    seen = steps[: now + 1]
    names = [_name(index) for index in range(len(seen))]
    figure = go.Figure()
    for label, values, color, pattern in (
        ("rescaled", [step.l for step in seen], colors.good, ""),
        ("just added", [step.l_unscaled for step in seen], colors.bad, "x"),
    ):
        figure.add_bar(
            x=names,
            y=values,
            name=label,
            marker=hatched(color, pattern, colors),
            text=[format_number(value, 4) for value in values] if len(steps) <= 8 else None,
            textposition="outside",
            textangle=0,
            cliponaxis=False,
            hovertemplate="%{x}, " + label + ": %{y:.6g}<extra></extra>",
        )
    _sums(figure, len(steps), 1.12 * max(step.l_unscaled for step in steps), colors)
    return figure.update_layout(barmode="group")


def weights_figure(x: np.ndarray, right: np.ndarray, wrong: np.ndarray, colors: theme.Palette) -> go.Figure:
    """The weight of each number (n,): softmax, and what an accumulator without rescale gives."""
    figure = go.Figure()
    positions = np.arange(len(x))
    for label, weights, color, pattern in (
        ("softmax", right, colors.good, ""),
        ("just added", wrong, colors.bad, "x"),
    ):
        figure.add_bar(
            x=positions,
            y=weights,
            name=label,
            marker=hatched(color, pattern, colors),
            text=[format_number(weight) for weight in weights] if len(x) <= 8 else None,
            textposition="outside",
            textangle=0,
            cliponaxis=False,
            customdata=x,
            hovertemplate=label + ", x = %{customdata:.6g}: %{y:.4g}<extra></extra>",
        )
    theme.style_figure(figure, colors, height=235)
    figure.update_layout(
        bargap=0.25,
        title={"text": "weight of each score", "font_size": 15, "x": 1, "xanchor": "right", "y": 0.97},
    )
    shown = positions[:: 1 + len(x) // 16]
    figure.update_xaxes(
        tickvals=shown,
        ticktext=[format_number(x[position], 6) for position in shown],
        tickfont_size=15,
        showgrid=False,
        zeroline=False,
    )
    return figure.update_yaxes(
        range=[0, 1.18 * max(right.max(), wrong.max())], showticklabels=False, showgrid=False
    )


def _name(index: int) -> str:
    return f"block {index}"


def _sums(figure: go.Figure, count: int, highest: float, colors: theme.Palette) -> go.Figure:
    """Axes that stay the same while blocks are added."""
    theme.style_figure(figure, colors, height=235)
    figure.update_xaxes(
        range=[-0.6, max(count, 2) - 0.4],
        tickfont_size=15,
        showgrid=False,
        categoryorder="array",
        categoryarray=[_name(index) for index in range(count)],
    )
    figure.update_yaxes(range=[0, 1.15 * highest], rangemode="tozero")
    figure.update_layout(
        barmode="stack",
        bargap=0.3,
        title={"text": "row sum l", "font_size": 15, "x": 1, "xanchor": "right", "y": 0.97},
    )
    return figure
