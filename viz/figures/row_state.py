"""The state of several rows over the key tiles: row max, row sum, distance from the final output."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from kernels.trace import Trace
from viz import theme

PANELS = {
    "row max m": ("row_max", "linear"),
    "row sum l": ("row_sum", "log"),
    "distance from the final output": ("output_distance", "log"),
}
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")


def spread_rows(trace: Trace, count: int = 5) -> list[tuple[int, int]]:
    """(batch_head, query row) of `count` rows spread evenly over the queries of the first head."""
    rows = np.unique(np.linspace(0, trace.problem.q_len - 1, count).round().astype(int))
    return [(int(trace.batch_head[0]), int(row)) for row in rows]


def row_state_figures(trace: Trace, rows: list[tuple[int, int]], colors: theme.Palette) -> dict[str, go.Figure]:
    """A figure for each quantity that the trace has: one line a row over the key tiles, in the order the kernel visited them."""
    available = {title: panel for title, panel in PANELS.items() if getattr(trace, panel[0]) is not None}
    return {title: _panel(trace, rows, colors, title, *panel) for title, panel in available.items()}


def _panel(trace: Trace, rows: list[tuple[int, int]], colors: theme.Palette, title: str, field: str, scale: str) -> go.Figure:
    figure = go.Figure()
    values = getattr(trace, field)
    lines = (colors.query, colors.key, colors.value, colors.output, colors.state)
    for index, (batch_head, row) in enumerate(rows):
        q_tile, offset = divmod(row, trace.problem.block_m)
        steps = np.flatnonzero((trace.batch_head == batch_head) & (trace.q_tile == q_tile) & (trace.kv_tile >= 0))
        figure.add_trace(
            go.Scatter(
                x=trace.kv_tile[steps],
                y=values[steps, offset],
                name=f"row {row}",
                mode="lines+markers" if len(steps) <= 64 else "lines",
                line={"color": lines[index % len(lines)], "dash": DASHES[index % len(DASHES)], "width": 2},
                marker={"size": 7, "symbol": index},
                hovertemplate=f"row {row}, key tile %{{x}}: %{{y:.4g}}<extra></extra>",
            )
        )
    theme.style_figure(figure, colors, height=300)
    figure.update_yaxes(type=scale, exponentformat="power", dtick=1 if field == "output_distance" else None)
    figure.update_layout(
        title={"text": f"{title}, over the key tiles", "font_size": 15, "y": 0.98}, legend={"y": -0.12, "yanchor": "top"}, margin_t=34
    )
    return figure
