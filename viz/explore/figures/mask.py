"""The mask as the tiles see it: full, partial and skipped ones."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from kernels.problem import AttentionProblem
from kernels.problem.tiles import visited_tiles
from viz.shared import theme

MAX_TILES = 256
"""Most tiles per side that are drawn; of more tiles, evenly spaced ones are."""
WORDS = ("skipped", "partial", "full")


def tile_kinds(problem: AttentionProblem) -> np.ndarray:
    """int8 (q_tiles, kv_tiles), at most MAX_TILES per side: 0 skipped, 1 partial, 2 full."""
    rows = np.unique(np.linspace(0, problem.q_tiles - 1, min(problem.q_tiles, MAX_TILES)).round().astype(int))
    columns = np.unique(
        np.linspace(0, problem.kv_tiles - 1, min(problem.kv_tiles, MAX_TILES)).round().astype(int)
    )
    kinds = np.zeros((len(rows), len(columns)), np.int8)
    for place, q_tile in enumerate(rows):
        tiles = visited_tiles(problem, int(q_tile))
        kinds[place, (columns >= tiles.first) & (columns < tiles.end)] = 1
        kinds[place, (columns >= tiles.first_full) & (columns < tiles.end_full)] = 2
    return kinds


def mask_figure(problem: AttentionProblem, colors: theme.Palette) -> go.Figure:
    """One cell per tile of one head, in three flat colours."""
    kinds = tile_kinds(problem)
    shades = (colors.surface, colors.plain, colors.muted)
    scale = [[edge, shade] for i, shade in enumerate(shades) for edge in (i / 3, (i + 1) / 3)]
    gap = 1 if max(kinds.shape) <= 64 else 0
    figure = go.Figure(
        go.Heatmap(
            z=kinds,
            zmin=-0.5,
            zmax=2.5,
            colorscale=scale,
            xgap=gap,
            ygap=gap,
            text=np.array(WORDS)[kinds],
            hovertemplate="query tile %{y}, key tile %{x}: %{text}<extra></extra>",
            colorbar={
                "tickvals": [0, 1, 2],
                "ticktext": list(WORDS),
                "thickness": 12,
                "outlinecolor": colors.line,
                "outlinewidth": 1,
            },
        )
    )
    theme.style_figure(figure, colors, height=360)
    figure.update_layout(margin_t=12)
    figure.update_xaxes(title="key tile", showgrid=False, constrain="domain", **_ticks(kinds.shape[1]))
    figure.update_yaxes(title="query tile", showgrid=False, autorange="reversed", **_ticks(kinds.shape[0]))
    return figure


def _ticks(tiles: int) -> dict:
    """Whole numbers even if there are few tiles."""
    return {"dtick": 1} if tiles <= 8 else {}
