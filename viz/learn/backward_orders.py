"""Panel of the Gradients chapter: what the backward pass moves, standard and in each loop order."""

from __future__ import annotations

import streamlit as st

from kernels.lessons.backward_traffic import (
    LOOP_ORDERS,
    STANDARD_BACKWARD,
    inner_loop_elements,
    standard_backward_elements,
)
from kernels.problem import BLOCKS, AttentionProblem
from viz.learn.backward_words import counted_elements, loop_order_words
from viz.learn.counts import counted_runs
from viz.learn.figures.gradients import loop_order_figure
from viz.learn.formulas import formulas
from viz.shared import runs, theme
from viz.shared.formats import count_tex, format_bytes
from viz.shared.layout import explore_link, plot

LENGTHS = (16, 1 << 16)
HEAD_DIMS = (16, 32, 64, 128, 256)
TILES = tuple(block for block in BLOCKS if block >= 16)


def loop_orders_panel(problem: AttentionProblem, palette: theme.Palette) -> None:
    """Elements that each loop order moves on the reader's shape: modelled, and counted by a run."""
    standard, tiled = st.columns(2, gap="large")
    with standard:
        _standard_table(problem)
    tiled.markdown(
        "**In tiles**, no square matrix moves. What the inner loop moves depends on the loop order:\n"
        "- if the query tile stays on the chip, dK and dV move;\n"
        "- if the key tile stays on the chip, dQ moves;\n"
        "- with two kernels, one in each order, no sum moves, but S and dP are computed twice.\n\n"
        "A sum that is stored at every step must also be read back at every step. "
        "Chu, Liu and Lin 2026 leave that out."
    )
    counted = _counted(problem)
    printed = [inner_loop_elements(order, problem, read_back=False) for order in LOOP_ORDERS]
    with_sums = [inner_loop_elements(order, problem, read_back=True) for order in LOOP_ORDERS]
    plot(loop_order_figure(LOOP_ORDERS, printed, with_sums, counted, palette), key="gradients_orders")
    st.markdown(loop_order_words(problem))
    formulas(
        rf"4\,T_r\,|J|\,d \cdot T_c = {count_tex(printed[0])}",
        rf"3\,T_c\,|I|\,d \cdot T_r = {count_tex(printed[2])}",
        rf"T_r = {problem.q_tiles},\; T_c = {problem.kv_tiles},",
        rf"|I| = {problem.block_m},\; |J| = {problem.block_n},\; d = {problem.head_dim}",
    )
    st.caption(
        "Elements that the inner loops move, for one head without a mask. lse and D, one number per row "
        "each, are left out. dK and dV that move are float32, twice the bytes per element. Algorithm numbers "
        "are those of Chu, Liu and Lin 2026; algorithm 7 is a draft, which loads O again at every step to "
        "recompute D. Counted: algorithm 6 and this project by their kernels, "
        "algorithms 7 and 8 by a tile-by-tile run in NumPy, if it is short."
    )
    with st.container(horizontal=True):
        explore_link("Play the two kernels on this shape", problem, algorithm="backward")
        explore_link("Play algorithm 6 on this shape", problem, algorithm="backward_q_outer")


def _standard_table(problem: AttentionProblem) -> None:
    rows = [
        f"| {access.line} | {', '.join(access.loads)} | {', '.join(access.stores)} |"
        for access in STANDARD_BACKWARD
    ]
    st.markdown("\n".join(["| **standard backward** | loads T × T | stores T × T |", "|:--|:--|:--|", *rows]))
    total, times = standard_backward_elements(problem), sum(access.count for access in STANDARD_BACKWARD)
    st.markdown(
        f"${times}\\,T^2 = {times} \\cdot {problem.q_len}^2$ = {total:,} elements, "
        f"{format_bytes(total * problem.itemsize)} in float16 (modelled: Chu, Liu and Lin 2026)."
    )


def traffic_problem() -> AttentionProblem:
    """The reader's shape and tiles, with one head and no mask."""
    with st.container(horizontal=True, gap="small"):
        length = st.number_input(
            "Tokens T", *LENGTHS, 128, 16, key="gradients_tokens", bind="query-params", width=140
        )
        head_dim = st.selectbox(
            "head_dim d", HEAD_DIMS, 1, key="gradients_head_dim", bind="query-params", width=140
        )
        block_m = st.selectbox(
            "Query rows per tile |I|", TILES, 1, key="gradients_block_m", bind="query-params", width=170
        )
        block_n = st.selectbox(
            "Key rows per tile |J|", TILES, 1, key="gradients_block_n", bind="query-params", width=170
        )
    return AttentionProblem(q_len=length, kv_len=length, head_dim=head_dim, block_m=block_m, block_n=block_n)


def _counted(problem: AttentionProblem) -> dict[str, int]:
    """Slug of an order -> elements of its inner loop, counted by those runs that are ready."""
    store = runs.run_store()
    wanted = [(problem, order.algorithm) for order in LOOP_ORDERS if order.algorithm]
    ready = counted_runs(store, runs.backend(store), wanted, "gradients_orders")
    return counted_elements(problem, {algorithm: run for (_, algorithm), run in ready.items()})
