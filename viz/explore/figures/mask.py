"""What the mask leaves of each tile."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from viz.shared import theme

MAX_TILES = 256
"""Most tiles per side that are drawn; of more tiles, evenly spaced ones are."""
WORDS = ("skipped", "partial", "full", "hidden")
"""By the numbers of KIND_CODES in viz.player.tiles."""


def mask_figure(kinds: np.ndarray, colors: theme.Palette) -> go.Figure:
    """One cell per tile of one head, in flat colours; `kinds` (q_tiles, kv_tiles) holds KIND_CODES."""
    rows, columns = (_evenly_spaced(count) for count in kinds.shape)
    kinds = kinds[np.ix_(rows, columns)]
    shades = (colors.surface, colors.plain, colors.muted, colors.line)
    words = WORDS if (kinds == WORDS.index("hidden")).any() else WORDS[:3]
    scale = [[(code + side) / len(words), shades[code]] for code in range(len(words)) for side in (0, 1)]
    gap = 1 if max(kinds.shape) <= 64 else 0
    figure = go.Figure(
        go.Heatmap(
            z=kinds,
            x=columns,
            y=rows,
            zmin=-0.5,
            zmax=len(words) - 0.5,
            colorscale=scale,
            xgap=gap,
            ygap=gap,
            text=np.array(WORDS)[kinds],
            hovertemplate="query tile %{y}, key tile %{x}: %{text}<extra></extra>",
            colorbar={
                "tickvals": list(range(len(words))),
                "ticktext": list(words),
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


def _evenly_spaced(count: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(count, MAX_TILES)).round().astype(int))


def _ticks(tiles: int) -> dict:
    """Whole numbers even if there are few tiles."""
    return {"dtick": 1} if tiles <= 8 else {}
