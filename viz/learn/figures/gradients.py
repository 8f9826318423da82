"""Charts of the Gradients chapter: the error if each block has its own D, and the traffic of loop orders."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from kernels.lessons.backward_traffic import LoopOrder
from kernels.lessons.gradients import BlockError
from viz.shared import theme
from viz.shared.figures.marks import hatched, set_title


def block_error_figure(errors: Sequence[BlockError], chosen: int, colors: theme.Palette) -> go.Figure:
    """Bars of the relative error of dS, dQ and dK over the block size; the chosen size has a frame."""
    figure = go.Figure()
    sizes = [str(error.block) for error in errors]
    series = (
        ("dS", [error.d_scores for error in errors], colors.output, ""),
        ("dQ", [error.d_query for error in errors], colors.query, "x"),
        ("dK", [error.d_key for error in errors], colors.key, "."),
    )
    frame = {"color": colors.text, "width": [3 if error.block == chosen else 0 for error in errors]}
    for name, values, color, pattern in series:
        figure.add_trace(
            go.Bar(
                name=name,
                x=sizes,
                y=values,
                marker=hatched(color, pattern, colors) | {"line": frame},
                hovertemplate=f"block of %{{x}} keys: error of {name} is %{{y:.2g}} "
                "of its largest value<extra></extra>",
            )
        )
    theme.style_figure(figure, colors, height=300)
    figure.update_xaxes(title="keys in a block (last: the whole row)", type="category")
    figure.update_yaxes(tickformat=".0%", rangemode="tozero", nticks=6)
    set_title(figure, "largest error, as a share of the largest right value")
    return figure.update_layout(margin_t=66, bargap=0.25)


def loop_order_figure(
    orders: Sequence[LoopOrder],
    printed: Sequence[int],
    with_sums: Sequence[int],
    counted: Mapping[str, int],
    colors: theme.Palette,
) -> go.Figure:
    """Elements that the inner loops of each order move.

    `printed` as Chu, Liu and Lin 2026 count them, `with_sums` with the sums read back, and `counted` by a run
    (slug of the order -> elements).
    """
    figure = go.Figure()
    labels = [f"<b>{order.slug}</b><br>{_on_two_lines(order.label)}" for order in orders]
    by_run = [counted.get(order.slug) for order in orders]
    series = (
        ("as Chu, Liu and Lin 2026 count, modelled", printed, colors.muted, "/"),
        ("with the sums read back, modelled", with_sums, colors.standard, "/"),
        ("counted by a run", by_run, colors.flash, ""),
    )
    for name, values, color, pattern in series:
        figure.add_trace(
            go.Bar(
                name=name,
                y=labels,
                x=values,
                orientation="h",
                marker=hatched(color, pattern, colors),
                text=[f"{value:,}" if value is not None else "" for value in values],
                textposition="outside",
                cliponaxis=False,
                hovertemplate="%{y}: %{x:,} elements<extra></extra>",
            )
        )
    theme.style_figure(figure, colors, height=100 + 84 * len(orders))
    figure.update_xaxes(showticklabels=False, showgrid=False, range=[0, 1.25 * max(*printed, *with_sums)])
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.update_layout(bargap=0.22, legend={"orientation": "v", "y": 1.0, "yanchor": "bottom"}, margin_t=84)
    return figure


def _on_two_lines(label: str) -> str:
    """The label with a line break after its first comma or colon, so that it leaves room for the bars."""
    return re.sub(r"([,:]) ", r"\1<br>", label, count=1)
