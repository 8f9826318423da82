"""Where the errors lie: maps over rows and keys or columns, and the map of NaN and infinity.

Pure: data -> figure.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from kernels.check.judge.error_maps import ErrorMap
from kernels.problem import AttentionProblem
from viz.shared import theme
from viz.shared.figures.charts import chart, flat_scale, line

BY_KEY = ("dK", "dV", "weights backward")
"""Kinds of maps whose rows are keys."""
COLUMNS = {"weights": "key", "weights backward": "query"}
"""What the columns of a map are, if not those of head_dim."""
MOST_LINES = 40
"""Tile boundaries are drawn up to this many per axis."""
MOST_MARKERS = 4096
"""Tiles can be picked up to this many."""
LEAST_SHARE, MOST_SHARE = 1e-3, 10
"""Errors beyond either share of the allowed one have the colour of it."""
CODE_WORDS = (
    "finite, as float64",
    "NaN or infinity, as float64",
    "finite, but not in float64",
    "NaN or infinity, but not in float64",
)
SHARE_HOVER = (
    "rows from %{customdata[0]}, ALONG from %{customdata[1]}<br>%{customdata[2]:.3g} of the allowed error"
    "<extra></extra>"
)


def share_figure(
    error_map: ErrorMap,
    index: int,
    problem: AttentionProblem,
    colors: theme.Palette,
    tile: tuple[int, int] | None = None,
) -> go.Figure:
    """Errors over the allowed error, of head `error_map.heads[index]`.

    A `tile` (query tile, key tile) is outlined, and then every tile can be picked.
    """
    values = np.nan_to_num(error_map.values[index], nan=np.inf)
    nothing = (values == 0) & _never_visible(error_map, problem)
    rows, columns = np.indices(values.shape)
    along = "keys" if error_map.kind == "weights" else "columns"
    figure = _heat_figure(
        error_map,
        np.where(nothing, np.nan, np.log10(np.clip(values, LEAST_SHARE, MOST_SHARE))),
        colors,
        customdata=np.stack(
            [rows * error_map.row_step, columns * error_map.column_step, np.minimum(values, 1e9)], axis=-1
        ),
        hovertemplate=SHARE_HOVER.replace("ALONG", along),
        zmin=np.log10(LEAST_SHARE),
        zmax=np.log10(MOST_SHARE),
        colorscale=_passing_scale(colors),
        colorbar={
            "title": {"text": "error /<br>allowed", "font_size": 13},
            "tickvals": [-3, -2, -1, 0, 1],
            "ticktext": ["0.001", "0.01", "0.1", "1", "10"],
            "thickness": 14,
        },
        hoverongaps=False,
    )
    block = problem.block_n if error_map.kind in BY_KEY else problem.block_m
    _tile_lines(figure, error_map, "rows", block, colors)
    if error_map.kind == "weights":
        _tile_lines(figure, error_map, "columns", error_map.column_step, colors)
        if tile is not None:
            _pickable_markers(figure, error_map, problem, colors)
            _outline(figure, error_map, problem, tile, colors)
    return figure


def signed_figure(error_map: ErrorMap, index: int, colors: theme.Palette) -> go.Figure:
    """Got minus exact, of head `error_map.heads[index]`: of each cell the value that is off the most."""
    assert error_map.signed is not None
    values = error_map.signed[index]
    limit = float(np.abs(values).max()) or 1.0
    return _heat_figure(
        error_map,
        values,
        colors,
        zmin=-limit,
        zmax=limit,
        colorscale=[[0, colors.flash], [0.5, colors.surface], [1, colors.bad]],
        colorbar={"title": {"text": "got −<br>exact", "font_size": 13}, "thickness": 14, "tickformat": ".2g"},
        hovertemplate="row %{y:.0f}, column %{x:.0f}<br>off by %{z:.3g}<extra></extra>",
    )


def codes_figure(error_map: ErrorMap, index: int, colors: theme.Palette) -> go.Figure:
    """Where NaN and infinities are, and whether float64 has them too."""
    assert error_map.codes is not None
    codes = error_map.codes[index]
    figure = _heat_figure(
        error_map,
        codes,
        colors,
        customdata=np.array(CODE_WORDS)[codes],
        zmin=0,
        zmax=3,
        colorscale=flat_scale((colors.surface, colors.state, colors.standard, colors.bad)),
        colorbar={
            "tickvals": [0.375, 1.125, 1.875, 2.625],
            "ticktext": [words.replace(", ", ",<br>") for words in CODE_WORDS],
            "thickness": 14,
        },
        hovertemplate="row %{y:.0f}, column %{x:.0f}<br>%{customdata}<extra></extra>",
    )
    return figure.update_layout(height=320)


def _heat_figure(error_map: ErrorMap, z: np.ndarray, colors: theme.Palette, **looks: Any) -> go.Figure:
    """One cell per cell of the map, on axes of rows and keys or columns."""
    heat = go.Heatmap(
        z=z,
        x=_centers(error_map.column_step, error_map.columns),
        y=_centers(error_map.row_step, error_map.rows),
        **looks,
    )
    plain = {"showgrid": False, "zeroline": False}
    columns = COLUMNS.get(error_map.kind, "column of head_dim")
    rows = "key row" if error_map.kind in BY_KEY else "query row"
    x = plain | {"title_text": columns, "range": [-0.5, error_map.columns - 0.5]}
    y = plain | {"title_text": rows, "range": [error_map.rows - 0.5, -0.5]}
    return chart([heat], colors, 380, "", x, y)


def _centers(step: int, total: int) -> np.ndarray:
    return np.arange(-(-total // step)) * step + (step - 1) / 2


def _passing_scale(colors: theme.Palette) -> list[list]:
    """The theme's scale up to what is allowed (three quarters of the axis), and one warning colour beyond."""
    last = len(colors.scale) - 1
    allowed = [[0.75 * number / last, color] for number, color in enumerate(colors.scale)]
    return [*allowed, [0.75, colors.bad], [1, colors.bad]]


def _never_visible(error_map: ErrorMap, problem: AttentionProblem) -> np.ndarray:
    """Cells of "weights" whose rows see none of their keys: nothing is drawn there."""
    if error_map.kind != "weights":
        return np.zeros(error_map.values.shape[1:], bool)
    rows, columns = error_map.values.shape[1:]
    offset = problem.kv_len - problem.q_len
    first_row = np.arange(rows)[:, None] * error_map.row_step + offset
    last_row = np.minimum(first_row + error_map.row_step, error_map.rows + offset) - 1
    first_key = np.arange(columns)[None, :] * error_map.column_step
    last_key = first_key + error_map.column_step - 1
    return (first_key > last_row + problem.band.right) | (last_key < first_row - problem.band.left)


def _tile_lines(figure: go.Figure, error_map: ErrorMap, axis: str, step: int, colors: theme.Palette) -> None:
    """Boundaries of tiles of `step` "rows" or "columns", as one trace of broken lines."""
    total, across_cells, across_step = error_map.rows, error_map.values.shape[2], error_map.column_step
    if axis == "columns":
        total, across_cells, across_step = error_map.columns, error_map.values.shape[1], error_map.row_step
    if not 1 < total / step <= MOST_LINES:
        return
    at = np.arange(step, total, step) - 0.5
    across = np.tile([-0.5, across_cells * across_step - 0.5, np.nan], len(at))
    along = np.repeat(at, 3)
    x, y = (across, along) if axis == "rows" else (along, across)
    figure.add_trace(line(x, y, colors.background, 1, hoverinfo="skip", showlegend=False))


def pickable_tiles(error_map: ErrorMap, problem: AttentionProblem) -> list[tuple[int, int]]:
    """(query tile, first key tile of a column) of each tile that can be picked; [] for too many.

    They are in the order of the chart's points.
    """
    columns = -(-error_map.columns // error_map.column_step)
    tiles_per_column = error_map.column_step // problem.block_n
    if problem.q_tiles * columns > MOST_MARKERS:
        return []
    return [
        (q_tile, column * tiles_per_column) for q_tile in range(problem.q_tiles) for column in range(columns)
    ]


def _pickable_markers(
    figure: go.Figure, error_map: ErrorMap, problem: AttentionProblem, colors: theme.Palette
) -> None:
    """Invisible points on the tiles, which take the clicks."""
    picks = pickable_tiles(error_map, problem)
    if not picks:
        return
    query, key = np.array(picks).T
    unseen = {"marker": {"opacity": 0}}
    figure.add_scatter(
        x=key * problem.block_n + (error_map.column_step - 1) / 2,
        y=np.minimum((query + 0.5) * problem.block_m - 0.5, error_map.rows),
        mode="markers",
        marker={"symbol": "square", "size": 26, "opacity": 0, "color": colors.now},
        customdata=np.stack([query, key], axis=1),
        showlegend=False,
        hovertemplate="query tile %{customdata[0]}, key tile %{customdata[1]}: pick it<extra></extra>",
        unselected=unseen,
        selected=unseen,
    )


def _outline(
    figure: go.Figure,
    error_map: ErrorMap,
    problem: AttentionProblem,
    tile: tuple[int, int],
    colors: theme.Palette,
) -> None:
    """A frame around the column's part of a tile, in two colours so that it is seen on every colour."""
    query, key = tile
    first_key = key * problem.block_n // error_map.column_step * error_map.column_step
    for color, width in ((colors.background, 6), (colors.text, 3)):
        figure.add_shape(
            type="rect",
            x0=first_key - 0.5,
            x1=min(first_key + error_map.column_step, error_map.columns) - 0.5,
            y0=query * problem.block_m - 0.5,
            y1=min((query + 1) * problem.block_m, error_map.rows) - 0.5,
            line={"color": color, "width": width},
        )
