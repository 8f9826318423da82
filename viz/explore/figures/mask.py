"""What the mask leaves of each tile."""

import numpy as np
import plotly.graph_objects as go

from viz.shared import theme
from viz.shared.figures.charts import DOWNWARDS, chart, evenly_spaced, flat_scale

MAX_TILES = 256
"""Most tiles per side that are drawn; of more tiles, evenly spaced ones are."""
KINDS = ("skipped", "partial", "full", "hidden")
"""By the numbers of KIND_CODES in viz.player.tiles."""


def mask_figure(kinds: np.ndarray, colors: theme.Palette) -> go.Figure:
    """One cell per tile of one head, in flat colours; `kinds` (q_tiles, kv_tiles) holds KIND_CODES."""
    rows, columns = (evenly_spaced(count, MAX_TILES) for count in kinds.shape)
    kinds = kinds[np.ix_(rows, columns)]
    words = KINDS if (kinds == KINDS.index("hidden")).any() else KINDS[:3]
    gap = 1 if max(kinds.shape) <= 64 else 0
    heat = go.Heatmap(
        z=kinds,
        x=columns,
        y=rows,
        zmin=-0.5,
        zmax=len(words) - 0.5,
        colorscale=flat_scale((colors.surface, colors.plain, colors.muted, colors.line)[: len(words)]),
        xgap=gap,
        ygap=gap,
        text=np.array(KINDS)[kinds],
        hovertemplate="query tile %{y}, key tile %{x}: %{text}<extra></extra>",
        colorbar={
            "tickvals": list(range(len(words))),
            "ticktext": words,
            "thickness": 12,
            "outlinecolor": colors.line,
            "outlinewidth": 1,
        },
    )
    x = {"title": "key tile", "showgrid": False, "constrain": "domain", **_ticks(kinds.shape[1])}
    y = {"title": "query tile", **DOWNWARDS, **_ticks(kinds.shape[0])}
    return chart([heat], colors, 360, "", x, y, margin_t=12)


def _ticks(tiles: int) -> dict:
    return {"dtick": 1} if tiles <= 8 else {}
