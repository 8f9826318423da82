"""Where the errors lie: maps over rows and keys or columns, and the map of NaN and infinity. Pure: data -> figure."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from kernels.check.result import ErrorMap
from kernels.problem import AttentionProblem
from viz.shared import theme

MOST_LINES = 40
"""Tile boundaries are drawn up to this many an axis."""
MOST_MARKERS = 4096
LEAST_SHARE = 1e-3
"""Errors below this share of the allowed one have the colour of it."""
CODE_WORDS = (
    "finite, as float64",
    "NaN or infinity, as float64",
    "finite, but not in float64",
    "NaN or infinity, but not in float64",
)


def share_figure(
    found: ErrorMap,
    place: int,
    problem: AttentionProblem,
    colors: theme.Palette,
    tile: tuple[int, int] | None = None,
) -> go.Figure:
    """Errors of one head over the allowed error. With a `tile` (query tile, key tile) it is outlined, and every tile can be picked."""
    values = np.nan_to_num(found.values[place], nan=np.inf)
    x, y = _centers(found.column_step, found.columns), _centers(found.row_step, found.rows)
    shown = np.where(
        (values == 0) & _never_visible(found, problem), np.nan, np.log10(np.clip(values, LEAST_SHARE, 10))
    )
    along = "keys" if found.kind == "weights" else "columns"
    hover = f"rows from %{{customdata[0]}}, {along} from %{{customdata[1]}}<br>%{{customdata[2]:.3g}} of the allowed error<extra></extra>"
    rows_from, columns_from = np.meshgrid(
        y - (found.row_step - 1) / 2, x - (found.column_step - 1) / 2, indexing="ij"
    )
    bar = {
        "title": {"text": "error /<br>allowed", "font_size": 13},
        "tickvals": [-3, -2, -1, 0, 1],
        "thickness": 14,
    }
    bar["ticktext"] = ["0.001", "0.01", "0.1", "1", "10"]
    heat = {
        "z": shown,
        "x": x,
        "y": y,
        "customdata": np.stack([rows_from, columns_from, np.minimum(values, 1e9)], axis=-1),
    }
    figure = go.Figure(
        go.Heatmap(
            **heat,
            hovertemplate=hover,
            zmin=-3,
            zmax=1,
            colorscale=_passing_scale(colors),
            colorbar=bar,
            hoverongaps=False,
        ),
    )
    by_rows = problem.block_n if found.kind in ("dK", "dV") else problem.block_m
    _tile_lines(figure, found.rows, by_rows, "h", colors)
    if found.kind == "weights":
        _tile_lines(figure, found.columns, found.column_step, "v", colors)
        if tile is not None:
            _draw_pickable_tiles(figure, found, problem, tile, colors)
    row_words = "key row" if found.kind in ("dK", "dV") else "query row"
    _axes(figure, found, row_words, "key" if found.kind == "weights" else "column of head_dim")
    return theme.style_figure(figure, colors, height=380)


def codes_figure(found: ErrorMap, place: int, colors: theme.Palette) -> go.Figure:
    """Where NaN and infinities are, and whether float64 has them too."""
    steps = (colors.surface, colors.state, colors.standard, colors.bad)
    scale = [[(code + side) / 4, color] for code, color in enumerate(steps) for side in (0, 1)]
    x, y = _centers(found.column_step, found.columns), _centers(found.row_step, found.rows)
    words = np.array(CODE_WORDS)[found.codes[place]]
    bar = {
        "tickvals": [0.375, 1.125, 1.875, 2.625],
        "ticktext": [text.replace(", ", ",<br>") for text in CODE_WORDS],
        "thickness": 14,
    }
    hover = "row %{y:.0f}, column %{x:.0f}<br>%{customdata}<extra></extra>"
    heat = go.Heatmap(
        z=found.codes[place],
        x=x,
        y=y,
        customdata=words,
        zmin=0,
        zmax=3,
        colorscale=scale,
        colorbar=bar,
        hovertemplate=hover,
    )
    figure = go.Figure(heat)
    _axes(figure, found, "row", "column of head_dim")
    return theme.style_figure(figure, colors, height=320)


def _centers(step: int, total: int) -> np.ndarray:
    cells = -(-total // step)
    return np.arange(cells) * step + (step - 1) / 2


def _passing_scale(colors: theme.Palette) -> list[list]:
    """The scale of the theme up to what is allowed, one warning colour beyond; in powers of ten from -3 to 1."""
    last = len(colors.scale) - 1
    return [[0.75 * place / last, color] for place, color in enumerate(colors.scale)] + [
        [0.75, colors.bad],
        [1, colors.bad],
    ]


def _never_visible(found: ErrorMap, problem: AttentionProblem) -> np.ndarray:
    """Cells of "weights" whose rows see none of their keys: nothing is drawn there."""
    if found.kind != "weights":
        return np.zeros(found.values.shape[1:], bool)
    left, right = problem.band.left, problem.band.right
    offset = problem.kv_len - problem.q_len
    first_row = np.arange(found.values.shape[1])[:, None] * found.row_step + offset
    last_row = np.minimum(first_row + found.row_step, found.rows + offset) - 1
    first_key = np.arange(found.values.shape[2])[None, :] * found.column_step
    return (first_key > last_row + right) | (first_key + found.column_step - 1 < first_row - left)


def _tile_lines(figure: go.Figure, total: int, step: int, direction: str, colors: theme.Palette) -> None:
    """Boundaries of tiles as one trace of broken lines."""
    if not 1 < total / step <= MOST_LINES:
        return
    at = np.arange(step, total, step) - 0.5
    spans = figure.data[0].x if direction == "h" else figure.data[0].y
    ends = [
        spans[0] - (spans[1] - spans[0]) / 2 if len(spans) > 1 else -0.5,
        spans[-1] + (spans[1] - spans[0]) / 2 if len(spans) > 1 else 0.5,
    ]
    across = np.tile([*ends, np.nan], len(at))
    along = np.stack([at, at, np.full(len(at), np.nan)], axis=1).ravel()
    x, y = (across, along) if direction == "h" else (along, across)
    figure.add_scatter(
        x=x,
        y=y,
        mode="lines",
        line={"color": colors.background, "width": 1},
        hoverinfo="skip",
        showlegend=False,
    )


def pickable_tiles(found: ErrorMap, problem: AttentionProblem) -> list[tuple[int, int]]:
    """(query tile, first key tile of a column) of each tile that can be picked, in the order of the chart's points; [] for too many."""
    columns, tiles_a_column = -(-found.columns // found.column_step), found.column_step // problem.block_n
    if problem.q_tiles * columns > MOST_MARKERS:
        return []
    return [
        (q_tile, column * tiles_a_column) for q_tile in range(problem.q_tiles) for column in range(columns)
    ]


def _draw_pickable_tiles(
    figure: go.Figure,
    found: ErrorMap,
    problem: AttentionProblem,
    tile: tuple[int, int],
    colors: theme.Palette,
) -> None:
    if picks := pickable_tiles(found, problem):
        q, kv = np.array(picks).T
        marker = {"symbol": "square", "size": 26, "opacity": 0, "color": colors.now}
        figure.add_scatter(
            x=kv * problem.block_n + (found.column_step - 1) / 2, y=np.minimum((q + 0.5) * problem.block_m - 0.5, found.rows), mode="markers",
            marker=marker, customdata=np.stack([q, kv], axis=1), showlegend=False,
            hovertemplate="query tile %{customdata[0]}, key tile %{customdata[1]}: pick it<extra></extra>",
            unselected={"marker": {"opacity": 0}}, selected={"marker": {"opacity": 0}},
        )  # fmt: skip
    first_key = tile[1] // (found.column_step // problem.block_n) * found.column_step
    for color, width in ((colors.background, 6), (colors.text, 3)):  # seen on every colour of the map
        figure.add_shape(
            type="rect", x0=first_key - 0.5, x1=min(first_key + found.column_step, found.columns) - 0.5, y0=tile[0] * problem.block_m - 0.5,
            y1=min((tile[0] + 1) * problem.block_m, found.rows) - 0.5, line={"color": color, "width": width},
        )  # fmt: skip


def _axes(figure: go.Figure, found: ErrorMap, rows: str, columns: str) -> None:
    figure.update_xaxes(title=columns, range=[-0.5, found.columns - 0.5], showgrid=False, zeroline=False)
    figure.update_yaxes(title=rows, range=[found.rows - 0.5, -0.5], showgrid=False, zeroline=False)
