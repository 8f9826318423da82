"""Figures of the Traffic chapter: bytes by algorithm, bytes against N, d and SRAM, blocks against SRAM."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from viz.shared import theme
from viz.shared.figures.marks import hatched
from viz.shared.formats import format_bytes, format_kib, significant


@dataclass(frozen=True)
class ByteBar:
    """Bytes of one algorithm."""

    label: str
    modelled: int
    counted: int | None
    """None if no run was counted."""
    color: str
    """Palette entry."""


def bytes_figure(bars: Sequence[ByteBar], least: int, colors: theme.Palette) -> go.Figure:
    """Two bars per algorithm, modelled (hatched) and counted (solid). A line at `least`: each tensor once."""
    longest = max(max(bar.modelled, bar.counted or 0) for bar in bars)
    figure = go.Figure()
    figure.add_trace(_bar_trace("modelled", [(bar, bar.modelled) for bar in bars], "/", colors))
    figure.add_trace(
        _bar_trace("counted", [(bar, bar.counted) for bar in bars if bar.counted is not None], "", colors)
    )
    for name, pattern in (("counted", ""), ("modelled", "/")):
        figure.add_trace(
            go.Bar(name=name, x=[None], y=[bars[0].label], marker=hatched(colors.muted, pattern, colors))
        )
    theme.style_figure(figure, colors, height=84 + 62 * len(bars))
    figure.add_vline(x=least, line={"color": colors.text, "width": 1.5, "dash": "dot"})
    least_words = f"dotted: each input and result once, {format_bytes(least)}"
    # at the right edge of the plot: beside the line it would be cut off on a narrow screen
    figure.add_annotation(
        x=1,
        xref="paper",
        y=1,
        yref="paper",
        yanchor="bottom",
        xanchor="right",
        showarrow=False,
        text=least_words,
    )
    figure.update_xaxes(showticklabels=False, showgrid=False, range=[0, 1.38 * longest])
    figure.update_yaxes(autorange="reversed", tickfont_size=15, showgrid=False, ticklabelstandoff=6)
    figure.update_layout(legend={"y": 1.08}, margin={"t": 56})
    return figure


def _bar_trace(
    name: str, values: Sequence[tuple[ByteBar, int]], pattern: str, colors: theme.Palette
) -> go.Bar:
    """Bars of one kind. A modelled bar makes room for a counted one above it, if there is one."""
    counted = name == "counted"
    return go.Bar(
        name=name,
        y=[bar.label for bar, _ in values],
        x=[value for _, value in values],
        orientation="h",
        width=[0.36 if bar.counted is not None else 0.44 for bar, _ in values],
        offset=[-0.38 if counted else 0.02 if bar.counted is not None else -0.22 for bar, _ in values],
        marker=hatched([getattr(colors, bar.color) for bar, _ in values], pattern, colors),
        text=[format_bytes(value) for _, value in values],
        showlegend=False,
        textposition="outside",
        textfont={"color": colors.text, "size": 14},
        constraintext="none",
        cliponaxis=False,
        hovertemplate=[f"{bar.label}<br>{value:,} bytes, {name}<extra></extra>" for bar, value in values],
    )


@dataclass(frozen=True)
class Curve:
    """Bytes over the swept quantity; None if an algorithm does not fit."""

    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    color: str
    dash: str = "solid"


def growth_figure(
    curves: Sequence[Curve],
    points: Mapping[str, Sequence[tuple[float, int]]],
    axis: str,
    here: float,
    colors: theme.Palette,
) -> go.Figure:
    """Modelled lines on log axes, and counted points (label of the curve -> points); `here` is marked."""
    figure = go.Figure()
    for curve in curves:
        figure.add_trace(_curve_trace(curve, axis, colors))
        if counted := points.get(curve.label):
            figure.add_trace(_points_trace(curve, counted, axis, colors))
    theme.style_figure(figure, colors, height=360)
    figure.add_vline(x=here, line={"color": colors.now, "width": 1.5, "dash": "dot"})
    x = curves[0].x
    ends = [math.log10(min(x) / 1.1), math.log10(max(x) * 1.1)]
    figure.update_xaxes(
        type="log",
        title=axis,
        tickvals=list(x),
        ticktext=[f"{value:,}" for value in x],
        tickangle=0,
        range=ends,
    )
    figure.update_yaxes(type="log", exponentformat="SI", ticksuffix="B", dtick=1)
    figure.update_layout(margin={"t": 48, "r": 16})
    return figure


def _curve_trace(curve: Curve, axis: str, colors: theme.Palette) -> go.Scatter:
    width = 3 if curve.dash == "solid" else 2
    return go.Scatter(
        x=curve.x,
        y=curve.y,
        name=curve.label,
        mode="lines",
        line={"color": getattr(colors, curve.color), "width": width, "dash": curve.dash},
        text=["" if value is None else format_bytes(value) for value in curve.y],
        hovertemplate=f"{curve.label}, {axis} = %{{x:,}}: %{{text}}, modelled<extra></extra>",
    )


def _points_trace(
    curve: Curve, points: Sequence[tuple[float, int]], axis: str, colors: theme.Palette
) -> go.Scatter:
    color = getattr(colors, curve.color)
    return go.Scatter(
        x=[x for x, _ in points],
        y=[y for _, y in points],
        mode="markers",
        name=f"{curve.label}, counted",
        showlegend=False,
        marker={"color": color, "size": 13, "line": {"color": colors.text, "width": 2}},
        text=[format_bytes(y) for _, y in points],
        hovertemplate=f"{curve.label}, {axis} = %{{x:,}}: %{{text}}, counted<extra></extra>",
    )


@dataclass(frozen=True)
class SramBar:
    """What is in SRAM at the same time."""

    label: str
    blocks: Sequence[tuple[str, int]]
    """(tensor, bytes)."""
    capacity: int | None = None
    """Bytes that there is room for, if that is not the first limit of the figure."""

    @property
    def total(self) -> int:
        """Bytes of all blocks."""
        return sum(size for _, size in self.blocks)


def blocks_figure(bars: Sequence[SramBar], limits: Mapping[str, int], colors: theme.Palette) -> go.Figure:
    """Stacked blocks against the capacities in `limits` (label -> bytes).

    A bar past its capacity, the first limit unless it has its own, says by how many KiB.
    """
    figure = go.Figure()
    first_limit = next(iter(limits.values()))
    for level in range(max(len(bar.blocks) for bar in bars)):
        blocks = [(bar, *bar.blocks[level]) for bar in bars if level < len(bar.blocks)]
        figure.add_trace(_level_trace(blocks, colors))
    longest = max(*(bar.total for bar in bars), *limits.values())
    for bar in bars:
        over = bar.total - (bar.capacity or first_limit)
        words = format_kib(bar.total) + (f" (+{significant(over / 1024)})" if over > 0 else "")
        figure.add_annotation(
            x=bar.total,
            y=bar.label,
            text=words,
            showarrow=False,
            xanchor="left",
            xshift=8,
            bgcolor=colors.background,
            font={"color": colors.bad if over > 0 else colors.text},
        )
    theme.style_figure(figure, colors, height=96 + 58 * len(bars))
    _add_limits(figure, limits, longest, colors)
    figure.update_xaxes(showticklabels=False, showgrid=False, range=[0, 1.32 * longest])
    figure.update_yaxes(autorange="reversed", tickfont_size=14, showgrid=False, ticklabelstandoff=6)
    figure.update_layout(barmode="stack", bargap=0.35, margin={"t": 30 + 18 * len(limits)})
    return figure


def _add_limits(figure: go.Figure, limits: Mapping[str, int], longest: float, colors: theme.Palette) -> None:
    """A line and a label for each capacity; the first is solid."""
    for index, (label, size) in enumerate(limits.items()):
        color, dash = (colors.muted, "dash") if index else (colors.now, "solid")
        figure.add_vline(x=size, layer="below", line={"color": color, "width": 2, "dash": dash})
        figure.add_annotation(
            x=size,
            y=1,
            yref="paper",
            yanchor="bottom",
            yshift=18 * index,
            showarrow=False,
            text=label,
            xanchor="right" if size > 0.5 * longest else "left",
        )


def _level_trace(blocks: Sequence[tuple[SramBar, str, int]], colors: theme.Palette) -> go.Bar:
    """The blocks at the same level of their bars: (bar, tensor, bytes)."""
    fills = [theme.tensor_color(name.split("/")[0], colors) for _, name, _ in blocks]
    return go.Bar(
        y=[bar.label for bar, _, _ in blocks],
        x=[size for *_, size in blocks],
        orientation="h",
        showlegend=False,
        marker={"color": fills, "line": {"color": colors.background, "width": 2}},
        text=[name for _, name, _ in blocks],
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        textfont={"color": colors.background, "size": 14},
        hovertemplate=[f"{name}: {format_kib(size)}<extra></extra>" for _, name, size in blocks],
    )
