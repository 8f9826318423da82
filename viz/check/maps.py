"""Maps of the Check page: where the errors are, over the keys down to the tile, and over rows and columns."""

from __future__ import annotations

import math

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from kernels.check.result import CheckResult, ErrorMap
from kernels.problem.tiles import visited_tiles
from viz.check.figures.maps import codes_figure, pickable_tiles, share_figure
from viz.shared.formats import significant
from viz.shared.layout import colors, explore_link, plot

WEIGHTS = (
    "One more run of the kernel on the same Q and K, with values that are 1 in a column of their own for each group of key tiles: O is then the "
    "weight that each row gives to each group. It shows along the keys where a kernel goes wrong, whatever kernel it is."
)


def maps(result: CheckResult) -> None:
    """Where the errors are: over the keys down to the tile, and over rows and columns."""
    if not result.maps:
        return
    st.subheader("Where the errors are", anchor="maps")
    left, right = st.columns(2, gap="large")
    weights = result.map("weights")
    with left:
        if weights is None:
            st.caption(
                "What a row gives to which key tile can be asked of a kernel that runs here, not of a result from a file."
            )
        else:
            _weights_panel(result, weights)
    with right:
        _tensor_panel(result)


def _weights_panel(result: CheckResult, weights: ErrorMap) -> None:
    st.caption(
        "**Over the keys**: how much each row attends to each key tile, against float64. Pick a tile.",
        help=WEIGHTS,
    )
    head, q_tile, kv_tile = _chosen_tile(result, weights)
    place = int(np.flatnonzero(weights.heads == head)[0])
    figure = share_figure(weights, place, result.case.problem, colors(), (q_tile, kv_tile))
    _clickable(figure, head, pickable_tiles(weights, result.case.problem))
    _head_choice(weights, head, q_tile, kv_tile)
    _tile_link(result, weights, place, head, q_tile, kv_tile)


def _clickable(figure: go.Figure, head: int, picks: list[tuple[int, int]]) -> None:
    """The chart with its tiles to pick: a click on the n-th puts `picks[n]` into the URL."""

    def pick() -> None:
        points = st.session_state["weights"].selection.points
        if points and 0 <= points[0]["point_index"] < len(picks):
            q_tile, kv_tile = picks[points[0]["point_index"]]
            st.query_params["tile"] = f"{head}.{q_tile}.{kv_tile}"

    st.plotly_chart(
        figure,
        key="weights",
        width="stretch",
        theme=None,
        config={"displayModeBar": False},
        on_select=pick,
        selection_mode="points",
    )


def _chosen_tile(result: CheckResult, weights: ErrorMap) -> tuple[int, int, int]:
    """(head, query tile, key tile) of the URL's `tile`, if it is one of this map; else the worst one."""
    problem = result.case.problem
    parts = str(st.query_params.get("tile", "")).split(".")
    if len(parts) == 3 and all(part.isascii() and part.isdigit() and len(part) < 9 for part in parts):
        head, q_tile, kv_tile = map(int, parts)
        if head in weights.heads and q_tile < problem.q_tiles and kv_tile < problem.kv_tiles:
            return head, q_tile, kv_tile
    values = np.nan_to_num(weights.values[0], nan=np.inf)
    row, column = np.unravel_index(int(np.argmax(values)), values.shape)
    return (
        int(weights.heads[0]),
        int(row * weights.row_step // problem.block_m),
        int(column * weights.column_step // problem.block_n),
    )


def _head_choice(weights: ErrorMap, head: int, q_tile: int, kv_tile: int) -> None:
    if len(weights.heads) < 2:
        return
    heads = [int(number) for number in weights.heads]
    chosen = st.segmented_control(
        "Heads with the largest errors", heads, default=head, required=True, key=f"head-{head}-{heads}"
    )
    if chosen != head:
        st.query_params["tile"] = f"{chosen}.{q_tile}.{kv_tile}"
        st.rerun()


def _tile_link(
    result: CheckResult, weights: ErrorMap, place: int, head: int, q_tile: int, kv_tile: int
) -> None:
    problem = result.case.problem
    first_row = q_tile * problem.block_m // weights.row_step
    last_row = (min((q_tile + 1) * problem.block_m, problem.q_len) - 1) // weights.row_step
    column = kv_tile * problem.block_n // weights.column_step
    share = float(np.nan_to_num(weights.values[place][first_row : last_row + 1, column], nan=np.inf).max())
    grouped = weights.column_step // problem.block_n
    group = f" ({grouped} key tiles share a column)" if grouped > 1 else ""
    st.markdown(
        f"Head {head}, query tile {q_tile}, key tile {kv_tile}: **{_times(share)}** the allowed error{group}."
    )
    visited = visited_tiles(problem, q_tile)
    more = {}
    if weights.first_step is not None and visited.first <= kv_tile < visited.end:
        more = {"step": str(int(weights.first_step[place][q_tile]) + kv_tile - visited.first + 1)}
    words = f"This tile in Explore, step {more['step']}" if more else "This shape in Explore"
    if result.case.upload:
        words += " (same shape, generated inputs)"
    explore_link(words, problem, **more)


def _times(share: float) -> str:
    return "∞×" if math.isinf(share) else f"{significant(share)}×"


def _tensor_panel(result: CheckResult) -> None:
    kinds = [found.kind for found in result.maps if found.kind != "weights"]
    caption, chart = st.container(), st.container()
    kind = kinds[0]
    if len(kinds) > 1:
        kind = st.segmented_control(
            "Tensor",
            kinds,
            default=kind,
            required=True,
            key="map",
            bind="query-params",
            label_visibility="collapsed",
        )
    found = result.map(kind if kind in kinds else kinds[0])
    caption.caption(
        f"**{found.kind} over its columns**, head {found.heads[0]}. Red is more than the rule allows."
    )
    with chart:
        plot(share_figure(found, 0, result.case.problem, colors()), key="tensor-map")
    if found.codes is None:
        st.caption(f"NaN and infinity: none in {found.kind}, and none in float64.")
    else:
        st.caption("**NaN and infinity**, against float64.")
        plot(codes_figure(found, 0, colors()), key="codes-map")
