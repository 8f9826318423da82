"""The state of several rows over the key tiles, or of several gradient tiles over the steps that sum them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from kernels.trace import Trace
from viz.shared import theme

ROW_PANELS = {
    "row max m": ("row_max", "linear"),
    "row sum l": ("row_sum", "log"),
    "distance from the final output": ("output_distance", "log"),
}
GRADIENTS = {"dQ": (0, "q_tile"), "dK": (1, "kv_tile"), "dV": (2, "kv_tile")}
"""Column of Trace.gradient_distance, and the tile that a sum belongs to."""
SPREAD = 5
"""Rows or tiles that have a line."""
LEAST = 1e-9
"""Smallest distance on a log scale."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")


class Line(NamedTuple):
    """A line of a figure: its name, and x and y of its points."""

    name: str
    x: np.ndarray
    y: np.ndarray


def spread_rows(trace: Trace, count: int = SPREAD) -> list[tuple[int, int]]:
    """(batch_head, row) of `count` rows spread evenly over the rows of the first head's query tiles."""
    recorded = trace.row_max if trace.row_max is not None else trace.row_share
    if recorded is None:
        return []
    head = trace.batch_head[0]
    of_head = trace.batch_head == head
    last_tile = int(trace.q_tile[of_head].max())
    in_last_tile = np.isfinite(recorded[of_head & (trace.q_tile == last_tile)]).any(axis=0).sum()
    last_row = last_tile * trace.problem.block_m + max(int(in_last_tile), 1) - 1
    rows = np.unique(np.linspace(0, last_row, count).round().astype(int))
    return [(int(head), int(row)) for row in rows]


def state_figures(trace: Trace, colors: theme.Palette) -> dict[str, go.Figure]:
    """Figures by title: of rows for a forward pass, of gradient tiles for a backward pass."""
    if trace.gradient_distance is not None:
        return gradient_figures(trace, colors)
    if trace.row_max is None:
        return {}
    return row_state_figures(trace, spread_rows(trace), colors)


def row_state_figures(
    trace: Trace, rows: list[tuple[int, int]], colors: theme.Palette
) -> dict[str, go.Figure]:
    """A figure for each recorded quantity: one line per row over the key tiles, as they were visited."""
    figures = {}
    for title, (field, scale) in ROW_PANELS.items():
        values = getattr(trace, field)
        if values is None:
            continue
        lines = []
        for batch_head, row in rows:
            q_tile, offset = divmod(row, trace.problem.block_m)
            about_row = (trace.batch_head == batch_head) & (trace.q_tile == q_tile) & (trace.kv_tile >= 0)
            steps = np.flatnonzero(about_row & ~np.isnan(values[:, offset]))
            lines.append(Line(f"row {row}", trace.kv_tile[steps], values[steps, offset]))
        figures[title] = _figure(title, "key tile", lines, scale, field == "output_distance", colors)
    return figures


def gradient_figures(trace: Trace, colors: theme.Palette) -> dict[str, go.Figure]:
    """A figure for each gradient that is summed over steps: one line for each of some tiles."""
    if trace.gradient_distance is None:
        return {}
    figures = {}
    for name, (column, tile_field) in GRADIENTS.items():
        distance, tile = trace.gradient_distance[:, column], getattr(trace, tile_field)
        known = np.flatnonzero(~np.isnan(distance) & (trace.kv_tile >= 0) & (trace.q_tile >= 0))
        if not len(known):
            continue
        known = known[trace.batch_head[known] == trace.batch_head[known[0]]]
        tiles = np.unique(tile[known])
        lines = []
        for chosen in tiles[np.unique(np.linspace(0, len(tiles) - 1, SPREAD).round().astype(int))]:
            steps = known[tile[known] == chosen]
            left = np.maximum(distance[steps], LEAST)
            lines.append(Line(f"tile {chosen}", np.arange(1, len(steps) + 1), left))
        title = f"distance of {name} from its final value"
        figures[name] = _figure(title, "step of the tile", lines, "log", True, colors)
    return figures


def _figure(
    title: str, unit: str, lines: list[Line], scale: str, decades: bool, colors: theme.Palette
) -> go.Figure:
    figure = go.Figure()
    hues = (colors.query, colors.key, colors.value, colors.output, colors.state)
    for index, (name, x, y) in enumerate(lines):
        figure.add_trace(
            go.Scatter(
                x=x,
                y=y,
                name=name,
                mode="lines+markers" if len(x) <= 64 else "lines",
                line={"color": hues[index % len(hues)], "dash": DASHES[index % len(DASHES)], "width": 2},
                marker={"size": 7, "symbol": index},
                hovertemplate=f"{name}, {unit} %{{x}}: %{{y:.4g}}<extra></extra>",
            )
        )
    theme.style_figure(figure, colors, height=300)
    figure.update_xaxes(title={"text": unit, "standoff": 4})
    figure.update_yaxes(type=scale, exponentformat="power", dtick=1 if decades else None)
    figure.update_layout(
        title={"text": title, "font_size": 15, "y": 0.98}, legend={"y": -0.24, "yanchor": "top"}, margin_t=34
    )
    return figure
