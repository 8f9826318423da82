"""Maps of the Check page: where the errors are, over the keys down to the tile, and over rows and columns."""

import math
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from kernels.check.result import CheckResult, ErrorMap
from kernels.problem import AttentionProblem
from kernels.problem.tiles import visited_tiles
from viz.check.figures.maps import pickable_tiles, share_figure
from viz.shared.formats import significant
from viz.shared.layout import colors, explore_link, plot, segments

WEIGHTS = (
    "The kernel runs once more on the same Q and K. The values are now 1 in a column of their own for each "
    "group of key tiles. So O is the weight that each row gives to each group: it shows along the keys where "
    "a kernel goes wrong, whatever kernel it is."
)
PLAYER_STEPS = 4096
"""The player draws at most this many steps. Links to longer runs do not name a step."""
LONGEST_NUMBER = 9
"""Digits of an index in the URL's `tile`."""


class Tile(NamedTuple):
    """A tile of the weights of one head."""

    head: int
    query: int
    key: int

    def put_into_url(self) -> None:
        """The URL's `tile` is what the page shows."""
        st.query_params["tile"] = ".".join(map(str, self))


def maps_panel(result: CheckResult) -> None:
    """Where the errors are: over the keys down to the tile, and over rows and columns."""
    if not result.maps:
        return
    st.subheader("Where the errors are", anchor="maps")
    left, right = st.columns(2, gap="large")
    with left:
        if weights := result.map("weights"):
            _weights_panel(result, weights)
        else:
            st.caption("A result from a file cannot be asked what each row gives to each key tile.")
    with right:
        _tensor_panel(result)


def _weights_panel(result: CheckResult, weights: ErrorMap) -> None:
    st.caption(
        "**Over the keys**: how much each row attends to each key tile, against float64. Pick a tile.",
        help=WEIGHTS,
    )
    problem = result.case.problem
    tile = _chosen_tile(problem, weights)
    index = weights.heads.tolist().index(tile.head)
    figure = share_figure(weights, index, problem, colors(), (tile.query, tile.key))
    _clickable(figure, tile.head, pickable_tiles(weights, problem))
    _head_choice(weights.heads.tolist(), tile)
    _say_tile(problem, weights, index, tile)
    step = step_of(problem, tile)  # None if FlashAttention-2 does not visit the tile
    words = f"This tile in Explore, step {step}" if step else "This shape in Explore"
    words += " (same shape, generated inputs)" if result.case.upload else ""
    explore_link(words, problem, **({"step": str(step)} if step else {}))


def _clickable(figure: go.Figure, head: int, picks: list[tuple[int, int]]) -> None:
    """The chart with its tiles to pick: a click on the n-th puts `picks[n]` into the URL."""

    def pick() -> None:
        points = st.session_state["weights"].selection.points
        if points and 0 <= points[0]["point_index"] < len(picks):
            Tile(head, *picks[points[0]["point_index"]]).put_into_url()

    st.plotly_chart(
        figure,
        key="weights",
        width="stretch",
        theme=None,
        config={"displayModeBar": False},
        on_select=pick,
        selection_mode="points",
    )


def _chosen_tile(problem: AttentionProblem, weights: ErrorMap) -> Tile:
    """The URL's `tile`, if this map has it; else the tile with the largest error."""
    parts = str(st.query_params.get("tile", "")).split(".")
    if len(parts) == 3 and all(p.isascii() and p.isdigit() and len(p) < LONGEST_NUMBER for p in parts):
        tile = Tile(*map(int, parts))
        if tile.head in weights.heads and tile.query < problem.q_tiles and tile.key < problem.kv_tiles:
            return tile
    values = np.nan_to_num(weights.values[0], nan=np.inf)
    row, column = map(int, np.unravel_index(np.argmax(values), values.shape))
    query, key = row * weights.row_step // problem.block_m, column * weights.column_step // problem.block_n
    return Tile(int(weights.heads[0]), query, key)


def _head_choice(heads: list[int], tile: Tile) -> None:
    if len(heads) < 2:
        return
    words, key = "Heads with the largest errors", f"head-{tile.head}-{heads}"
    chosen = st.segmented_control(words, heads, default=tile.head, required=True, key=key)
    if chosen != tile.head:
        tile._replace(head=chosen).put_into_url()
        st.rerun()


def _say_tile(problem: AttentionProblem, weights: ErrorMap, index: int, tile: Tile) -> None:
    last_row = min((tile.query + 1) * problem.block_m, problem.q_len) - 1
    rows = slice(tile.query * problem.block_m // weights.row_step, last_row // weights.row_step + 1)
    column = tile.key * problem.block_n // weights.column_step
    share = float(np.nan_to_num(weights.values[index][rows, column], nan=np.inf).max())
    times = "∞×" if math.isinf(share) else f"{significant(share)}×"
    grouped = weights.column_step // problem.block_n
    group = f" ({grouped} key tiles share a column)" if grouped > 1 else ""
    words = f"Head {tile.head}, query tile {tile.query}, key tile {tile.key}"
    st.markdown(f"{words}: **{times}** the allowed error{group}.")


def step_of(problem: AttentionProblem, tile: Tile) -> int | None:
    """FlashAttention-2's step, from 1, that visits the tile; None if none does, or if not all are drawn."""
    visited = [visited_tiles(problem, q_tile) for q_tile in range(problem.q_tiles)]
    steps = [max(each.end - each.first, 1) for each in visited]
    own = visited[tile.query]
    drawn = sum(steps) * problem.batch * problem.q_heads <= PLAYER_STEPS
    if not drawn or not own.first <= tile.key < own.end:
        return None
    return tile.head * sum(steps) + sum(steps[: tile.query]) + tile.key - own.first + 1


def _tensor_panel(result: CheckResult) -> None:
    maps = {error_map.kind: error_map for error_map in result.maps if error_map.kind != "weights"}
    caption, chart = st.container(), st.container()
    kind = next((tensor.name for tensor in result.failing if tensor.name in maps), next(iter(maps)))
    if len(maps) > 1:
        kind = segments("Tensor", list(maps), "map", kind, label_visibility="collapsed")
    error_map = maps[kind]
    words = f"**{kind} over its columns**, head {error_map.heads[0]}. Red is more than the rule allows."
    caption.caption(words)
    with chart:
        plot(share_figure(error_map, 0, result.case.problem, colors()), key="tensor-map")
    cells = (
        "none" if error_map.codes is None else f"{np.count_nonzero(error_map.codes[0]):,} cells of this map"
    )
    st.caption(f"NaN and infinity, here or in float64: {cells}.")
