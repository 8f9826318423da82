"""View "Traffic" of the Gradients chapter: what the backward pass moves, standard and in each loop order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.standard.traffic import standard_requested
from kernels.lessons import io as lesson
from kernels.lessons.backward_run import can_run, key_outer_run
from kernels.lessons.backward_traffic import (
    LOOP_ORDERS,
    STANDARD_BACKWARD,
    inner_loop_elements,
    standard_backward_elements,
)
from kernels.lessons.tiling import tiles_of
from kernels.problem import AttentionProblem
from viz.learn.backward_words import counted_elements, loop_order_words
from viz.learn.controls import HEAD_DIMS, TILE_SIZES
from viz.learn.counts import counted_runs, where_counted
from viz.learn.figures.io import ByteBar, bytes_figure
from viz.shared import runs, theme
from viz.shared.formats import format_bytes, format_count, format_kib
from viz.shared.glossary import say
from viz.shared.layout import explore_link, plot

ALGORITHM_NAMES = [order.algorithm for order in LOOP_ORDERS if order.algorithm]
LENGTHS = (16, 1 << 16)
SRAM_BYTES = 64 << 10
"""On-chip memory of the row-wise algorithm, which keeps as many rows of P and dP as fit."""


def loop_orders_view(palette: theme.Palette) -> AttentionProblem:
    """Bytes of each way through the backward pass, and folded what moves. Returns the reader's problem."""
    say(
        "The standard backward pass stores and loads matrices of N × N numbers. **In tiles**, none of them "
        "moves. A kernel has two loops: the [[tile]] of the outer loop stays on the chip, and the tiles of "
        "the inner loop come and go. The sums of the inner tiles must come and go too:\n"
        "- with the [[query tile]] outside, the sums dK and dV move;\n"
        "- with the [[key tile]] outside, the sum dQ moves;\n"
        "- with two kernels, one in each order, no sum moves, but S and dP are computed twice."
    )
    problem = traffic_problem()
    figure, rest = st.container(), st.container()
    ready = _runs(problem)  # below the rest, which its progress would push down
    with figure:
        least = lesson.compulsory_bytes(problem.q_len, problem.head_dim, problem.itemsize, "backward")
        plot(bytes_figure(_bars(problem, ready), least, palette), key="gradients_bytes")
    with rest:
        if words := row_wise_words(problem) or row_wise_cost(problem):
            st.markdown(words)
        _say_source(problem, ready)
        with st.expander("One step of the inner loop, in each order"):
            _inner_steps(problem, ready)
        with st.expander("What the standard backward pass loads and stores"):
            _standard_table(problem)
    return problem


def row_wise_words(problem: AttentionProblem) -> str:
    """Why row-wise attention moves least; "" if it does not."""
    length, d, size = problem.q_len, problem.head_dim, problem.itemsize
    memory = SRAM_BYTES // size
    rows = lesson.row_wise_backward_rows(length, d, memory)
    others = [ALGORITHMS[name].requested_bytes(problem) for name in ALGORITHM_NAMES]
    others.append(standard_requested(problem, "backward"))
    if not rows or lesson.row_wise_backward_bytes(length, d, rows, size) >= min(others):
        return ""
    room, opening = format_kib(SRAM_BYTES), "**Row-wise attention moves least here**:"
    if rows < length:
        return (
            f"{opening} it keeps {rows} whole rows of P and dP in {room}, and the tiles have only "
            f"{problem.block_m} queries, so it reads K and V less often. Larger tiles change that."
        )
    longer = length
    while lesson.row_wise_backward_rows(longer, d, memory) == longer:
        longer *= 2
    fewer = lesson.row_wise_backward_rows(longer, d, memory)
    if lesson.all_of_backward_fits(length, d, memory):
        fits = f"Q, K, V, O, dO and the three gradients fit into {room} together"
    else:
        fits = f"P and dP of all {length} rows fit into {room} (the model counts nothing else for the room)"
    return (
        f"{opening} {fits}, so each input is read once and each result written once. Longer rows take "
        f"more room: at N = {longer:,} only {fewer} of {longer:,} rows fit, and K and V are read, and dK and "
        f"dV read and written, {tiles_of(longer, fewer)} times (modelled)."
    )


def row_wise_cost(problem: AttentionProblem) -> str:
    """What row-wise attention moves again and again; "" if not one row fits."""
    rows = lesson.row_wise_backward_rows(problem.q_len, problem.head_dim, SRAM_BYTES // problem.itemsize)
    if not rows:
        return ""
    return (
        f"**Row-wise attention** keeps {format_count(rows, 'whole row')} of P and dP in "
        f"{format_kib(SRAM_BYTES)}. So it reads K and V, and reads and writes dK and dV, "
        f"{format_count(tiles_of(problem.q_len, rows), 'time')} (modelled). Longer rows leave "
        "room for fewer of them; tiles keep their size."
    )


def _say_source(problem: AttentionProblem, ready: Mapping[str, runs.Run]) -> None:
    """Where the bars are from, and links to the runs."""
    say(
        "**[[requested bytes|Requested]]** bytes, what is read again counts again, for standard attention "
        "in the same tiles. **Counted** (solid): by our kernels "
        f"({where_counted({(problem, name): run for name, run in ready.items()})}); a key-outer order that "
        "no kernel has run is counted by a tile-by-tile run in NumPy, if it is short. **Modelled** "
        "(hatched): one head, float16, no mask; "
        f"sums that wait in HBM are float32; row-wise with {SRAM_BYTES >> 10} KiB of SRAM. Algorithm numbers "
        "are those of Chu, Liu and Lin 2026; algorithm 7 is a draft, which loads O again at every step to "
        "recompute D. The dotted line: **[[compulsory bytes|at least]]** Q, K, V, O and dO in, "
        "and dQ, dK and dV out. Our kernels read lse too, 4N bytes.",
        small=True,
    )
    with st.container(horizontal=True):
        explore_link("Play our two kernels on this shape", problem, algorithm="backward")
        explore_link("Play the query-outer order on this shape", problem, algorithm="backward_q_outer")
        explore_link("Play the key-outer order on this shape", problem, algorithm="backward_kv_outer")


def _inner_steps(problem: AttentionProblem, ready: Mapping[str, runs.Run]) -> None:
    """The blocks that a step moves in each order, and which order moves less."""
    st.markdown("A sum that is stored at every step must also be read back at every step.")
    st.markdown(_loop_table(problem, ready))
    st.caption("Numbers that move in the whole pass. lse and D, one number per row each, are left out.")
    st.markdown(loop_order_words(problem))


def _standard_table(problem: AttentionProblem) -> None:
    rows = [
        f"| {access.line} | {', '.join(access.loads)} | {', '.join(access.stores)} |"
        for access in STANDARD_BACKWARD
    ]
    st.markdown("\n".join(["| **standard backward** | loads N × N | stores N × N |", "|:--|:--|:--|", *rows]))
    total, times = standard_backward_elements(problem), sum(access.count for access in STANDARD_BACKWARD)
    st.markdown(
        f"${times}\\,N^2 = {times} \\cdot {problem.q_len}^2$ = {total:,} numbers, "
        f"{format_bytes(total * problem.itemsize)} in float16 (modelled: Chu, Liu and Lin 2026)."
    )


def traffic_problem(tiles: bool = True) -> AttentionProblem:
    """The reader's shape and tiles, with one head and no mask. Without `tiles` they have no controls."""
    with st.container(horizontal=True, gap="small"):
        length = st.number_input(
            "N, queries and keys", *LENGTHS, 512, 16, key="gradients_tokens", bind="query-params", width=160
        )
        head_dim = st.selectbox(
            "d, head_dim", HEAD_DIMS, 1, key="gradients_head_dim", bind="query-params", width=140
        )
        if not tiles:
            return AttentionProblem(q_len=length, kv_len=length, head_dim=head_dim)
        block_m = st.selectbox(
            "BLOCK_M", TILE_SIZES, 2, key="gradients_block_m", bind="query-params", width=140
        )
        block_n = st.selectbox(
            "BLOCK_N", TILE_SIZES, 2, key="gradients_block_n", bind="query-params", width=140
        )
    return AttentionProblem(q_len=length, kv_len=length, head_dim=head_dim, block_m=block_m, block_n=block_n)


def _runs(problem: AttentionProblem) -> dict[str, runs.Run]:
    """Algorithm -> its run, of those that are ready."""
    store = runs.run_store()
    wanted = [(problem, name) for name in ALGORITHM_NAMES]
    ready = counted_runs(store, runs.backend(store), wanted, "gradients_orders")
    return {algorithm: run for (_, algorithm), run in ready.items()}


def _bars(problem: AttentionProblem, ready: Mapping[str, runs.Run]) -> list[ByteBar]:
    length, d, size = problem.q_len, problem.head_dim, problem.itemsize
    tile = lesson.BlockSizes(problem.block_m, problem.block_n)
    rows = lesson.row_wise_backward_rows(length, d, SRAM_BYTES // size)
    bars = [ByteBar("standard", standard_requested(problem, "backward"), None, "standard")]
    if rows:
        label = f"row-wise, {format_count(rows, 'row')}"
        bars.append(ByteBar(label, lesson.row_wise_backward_bytes(length, d, rows, size), None, "state"))
    draft = lesson.key_outer_backward_bytes(length, d, tile, size, gamma_each_step=True)
    key_outer = _kernel_bar("key outside (alg. 8)", "value", "backward_kv_outer", problem, ready)
    if key_outer.counted is None:
        key_outer = replace(key_outer, counted=_run_bytes(problem, False))
    return [
        *bars,
        _kernel_bar("query outside (alg. 6)", "query", "backward_q_outer", problem, ready),
        ByteBar("key outside, draft (alg. 7)", draft, _run_bytes(problem, True), "value"),
        key_outer,
        _kernel_bar("our two kernels", "flash", "backward", problem, ready),
    ]


def _run_bytes(problem: AttentionProblem, d_each_step: bool) -> int | None:
    """Bytes of a tile-by-tile run; None if it would be long."""
    return key_outer_run(problem, d_each_step).bytes_moved if can_run(problem) else None


def _kernel_bar(
    label: str, color: str, algorithm: str, problem: AttentionProblem, ready: Mapping[str, runs.Run]
) -> ByteBar:
    """A bar of an algorithm that is a kernel of ours."""
    counted = ready[algorithm].trace.total_bytes if algorithm in ready else None
    return ByteBar(label, ALGORITHMS[algorithm].requested_bytes(problem), counted, color)


def _loop_table(problem: AttentionProblem, ready: Mapping[str, runs.Run]) -> str:
    rows = [
        "| order | a step moves | blocks | numbers, counted | numbers, modelled |",
        "|:--|:--|--:|--:|--:|",
    ]
    elements = counted_elements(problem, ready)
    for order in LOOP_ORDERS:
        blocks = [*order.q_blocks, *order.kv_blocks, *order.read_back]
        counted = f"{elements[order.slug]:,}" if order.slug in elements else "–"
        modelled = inner_loop_elements(order, problem, read_back=True)
        rows.append(
            f"| {order.label} ({order.slug}) | {', '.join(blocks)} | {len(blocks)} | {counted} | "
            f"{modelled:,} |"
        )
    return "\n".join(rows)
