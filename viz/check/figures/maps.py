"""Where the errors lie: a map over rows and keys or columns.

Pure: data -> figure.
"""

import numpy as np
import plotly.graph_objects as go

from kernels.check.result import ErrorMap
from kernels.problem import AttentionProblem
from viz.shared import theme
from viz.shared.figures.charts import chart

BY_KEY = ("dK", "dV")
"""Kinds of maps whose rows are keys."""
MOST_LINES = 40
"""Tile boundaries are drawn up to this many per axis."""
LEAST_SHARE, MOST_SHARE = 1e-3, 10
"""Errors beyond either share of the allowed one have the colour of it."""
HOVER = "row %{y:.0f}, column %{x:.0f}<br>%{customdata:.3g} of what is allowed<extra></extra>"


def share_figure(error_map: ErrorMap, problem: AttentionProblem, colors: theme.Palette) -> go.Figure:
    """Errors over the allowed ones, of the worst head."""
    values = np.nan_to_num(error_map.values, nan=np.inf)
    shown = np.log10(np.clip(values, LEAST_SHARE, MOST_SHARE))
    of_keys = error_map.kind == "weights"
    heat = go.Heatmap(
        z=shown,
        x0=(error_map.column_step - 1) / 2,
        dx=error_map.column_step,
        y0=(error_map.row_step - 1) / 2,
        dy=error_map.row_step,
        customdata=np.minimum(values, 1e9),
        hovertemplate=HOVER,
        zmin=np.log10(LEAST_SHARE),
        zmax=np.log10(MOST_SHARE),
        colorscale=[[0, colors.background], [0.75, colors.query], [0.75, colors.bad], [1, colors.bad]],
        colorbar={
            "title": {"text": "error /<br>allowed", "font_size": 13},
            "tickvals": [-3, -2, -1, 0, 1],
            "ticktext": ["0.001", "0.01", "0.1", "1", "10"],
            "thickness": 14,
        },
    )
    plain = {"showgrid": False, "zeroline": False}
    columns = "key" if of_keys else "column of head_dim"
    rows, block = ("key", problem.block_n) if error_map.kind in BY_KEY else ("query", problem.block_m)
    x = plain | {"title_text": columns, "range": [-0.5, error_map.columns - 0.5]}
    y = plain | {"title_text": f"{rows} row", "range": [error_map.rows - 0.5, -0.5]}
    figure = chart([heat], colors, 380, "", x, y)
    shapes = _boundaries("y", error_map.rows, block, colors)
    if of_keys:
        shapes += _boundaries("x", error_map.columns, error_map.column_step, colors)
    return figure.update_layout(shapes=shapes)


def _boundaries(axis: str, total: int, step: int, colors: theme.Palette) -> list[dict]:
    """Lines between tiles of `step` rows ("y") or columns ("x"); none if they would be too many."""
    other = "x" if axis == "y" else "y"
    line: dict = {"type": "line", "line": {"color": colors.background, "width": 1}}
    line |= {f"{other}ref": f"{other} domain", f"{other}0": 0, f"{other}1": 1}
    places = [place - 0.5 for place in range(step, total, step)]
    return [line | {f"{axis}0": at, f"{axis}1": at} for at in places if len(places) < MOST_LINES]
