"""Maps of the Check page: where the errors are, over the keys down to the tile, and over rows and columns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from kernels.check.judge.error_maps import ErrorMap
from kernels.check.result import CheckResult
from kernels.problem import AttentionProblem
from kernels.problem.tiles import visited_tiles
from viz.check.figures.maps import codes_figure, pickable_tiles, share_figure, signed_figure
from viz.shared.formats import significant
from viz.shared.layout import colors, explore_link, plot

WEIGHTS = (
    "The kernel runs once more on the same Q and K. The values are now 1 in a column of their own for each "
    "group of key tiles. So O is the weight that each row gives to each group: it shows along the keys where "
    "a kernel goes wrong, whatever kernel it is."
)
BACKWARD_WEIGHTS = (
    "The backward pass runs once more, with a dO that is 1 in a column of its own for each group of query "
    "tiles. So dV is the weight that each key gets from each group, as the backward pass computes it."
)
TITLES = {"weights backward": "Weights of the backward pass: keys and query tiles"}
SHARE, SIGNED = "error / allowed", "got − exact"
LONGEST_NUMBER = 9
"""Digits of an index in the URL's `tile`."""


@dataclass(frozen=True)
class Tile:
    """A tile of the weights of one head."""

    head: int
    query: int
    key: int

    def in_url(self) -> str:
        """As the URL's `tile` has it."""
        return f"{self.head}.{self.query}.{self.key}"


def maps_panel(result: CheckResult) -> None:
    """Where the errors are: over the keys down to the tile, and over rows and columns."""
    if not result.maps:
        return
    st.subheader("Where the errors are", anchor="maps")
    shown = st.segmented_control(
        "Maps of", [SHARE, SIGNED], default=SHARE, required=True, key="map-of", label_visibility="collapsed"
    )
    signed = shown == SIGNED
    left, right = st.columns(2, gap="large")
    weights = result.map("weights")
    with left:
        if weights is None:
            st.caption(
                "A kernel that runs here can be asked what each row gives to each key tile. A result from a "
                "file cannot."
            )
        else:
            _weights_panel(result, weights, signed)
    with right:
        _tensor_panel(result, signed)


def _weights_panel(result: CheckResult, weights: ErrorMap, signed: bool) -> None:
    st.caption(
        "**Over the keys**: how much each row attends to each key tile, against float64. Pick a tile.",
        help=WEIGHTS,
    )
    problem = result.case.problem
    tile = _chosen_tile(problem, weights)
    index = int(np.flatnonzero(weights.heads == tile.head)[0])
    if signed and weights.signed is not None:
        plot(signed_figure(weights, index, colors()), key="signed-weights")
    else:
        figure = share_figure(weights, index, problem, colors(), (tile.query, tile.key))
        _clickable(figure, tile.head, pickable_tiles(weights, problem))
    _head_choice(weights, tile)
    _say_tile(problem, weights, index, tile)
    _tile_link(result, weights, index, tile)


def _clickable(figure: go.Figure, head: int, picks: list[tuple[int, int]]) -> None:
    """The chart with its tiles to pick: a click on the n-th puts `picks[n]` into the URL."""

    def pick() -> None:
        points = st.session_state["weights"].selection.points
        if points and 0 <= points[0]["point_index"] < len(picks):
            query, key = picks[points[0]["point_index"]]
            st.query_params["tile"] = Tile(head, query, key).in_url()

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
    numbers = [
        int(part) for part in parts if part.isascii() and part.isdigit() and len(part) < LONGEST_NUMBER
    ]
    if len(parts) == len(numbers) == 3:
        tile = Tile(*numbers)
        if tile.head in weights.heads and tile.query < problem.q_tiles and tile.key < problem.kv_tiles:
            return tile
    values = np.nan_to_num(weights.values[0], nan=np.inf)
    row, column = np.unravel_index(int(np.argmax(values)), values.shape)
    first_row, first_key = int(row) * weights.row_step, int(column) * weights.column_step
    return Tile(int(weights.heads[0]), first_row // problem.block_m, first_key // problem.block_n)


def _head_choice(weights: ErrorMap, tile: Tile) -> None:
    if len(weights.heads) < 2:
        return
    heads = [int(number) for number in weights.heads]
    chosen = st.segmented_control(
        "Heads with the largest errors",
        heads,
        default=tile.head,
        required=True,
        key=f"head-{tile.head}-{heads}",
    )
    if chosen != tile.head:
        st.query_params["tile"] = Tile(chosen, tile.query, tile.key).in_url()
        st.rerun()


def _say_tile(problem: AttentionProblem, weights: ErrorMap, index: int, tile: Tile) -> None:
    """How large the error of the tile is, over what is allowed."""
    last_row = min((tile.query + 1) * problem.block_m, problem.q_len) - 1
    rows = slice(tile.query * problem.block_m // weights.row_step, last_row // weights.row_step + 1)
    column = tile.key * problem.block_n // weights.column_step
    share = float(np.nan_to_num(weights.values[index][rows, column], nan=np.inf).max())
    times = "∞×" if math.isinf(share) else f"{significant(share)}×"
    grouped = weights.column_step // problem.block_n
    group = f" ({grouped} key tiles share a column)" if grouped > 1 else ""
    words = f"Head {tile.head}, query tile {tile.query}, key tile {tile.key}"
    st.markdown(f"{words}: **{times}** the allowed error{group}.")


def _tile_link(result: CheckResult, weights: ErrorMap, index: int, tile: Tile) -> None:
    """Opens the tile's step in Explore; the shape alone if FlashAttention-2 does not visit the tile."""
    problem = result.case.problem
    visited = visited_tiles(problem, tile.query)
    words, more = "This shape in Explore", {}
    if weights.first_step is not None and visited.first <= tile.key < visited.end:
        step = int(weights.first_step[index][tile.query]) + tile.key - visited.first + 1
        words, more = f"This tile in Explore, step {step}", {"step": str(step)}
    if result.case.upload:
        words += " (same shape, generated inputs)"
    explore_link(words, problem, **more)


def _tensor_panel(result: CheckResult, signed: bool) -> None:
    maps = {error_map.kind: error_map for error_map in result.maps if error_map.kind != "weights"}
    caption, chart = st.container(), st.container()
    kind = next((tensor.name for tensor in result.failing if tensor.name in maps), next(iter(maps)))
    if len(maps) > 1:
        kind = st.segmented_control(
            "Tensor",
            list(maps),
            default=kind,
            required=True,
            key="map",
            bind="query-params",
            label_visibility="collapsed",
        )
    error_map = maps[kind]
    title = TITLES.get(kind, f"{kind} over its columns")
    caption.caption(
        f"**{title}**, head {error_map.heads[0]}. {'' if signed else 'Red is more than the rule allows.'}",
        help=BACKWARD_WEIGHTS if kind == "weights backward" else None,
    )
    with chart:
        if signed and error_map.signed is not None:
            plot(signed_figure(error_map, 0, colors()), key="signed-map")
        else:
            plot(share_figure(error_map, 0, result.case.problem, colors()), key="tensor-map")
    if error_map.codes is None:
        st.caption(f"NaN and infinity: none in {kind}, and none in float64.")
    else:
        st.caption("**NaN and infinity**, against float64.")
        plot(codes_figure(error_map, 0, colors()), key="codes-map")
