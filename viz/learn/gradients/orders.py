"""View "Traffic" of the Gradients chapter: what the backward pass moves, standard and in each loop order."""

from collections.abc import Mapping

import streamlit as st

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.standard.traffic import standard_requested
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import forward_flops
from viz.learn.controls import HEAD_DIMS, TILE_SIZES, choice
from viz.learn.counts import counted_runs, where_counted
from viz.learn.gradients import maths_traffic as lesson
from viz.learn.io.figures import ByteBar, bytes_figure
from viz.learn.tiling.maths import tiles_of
from viz.learn.words import Words
from viz.shared import runs, theme
from viz.shared.formats import format_count

LENGTHS = (16, 1 << 16)
SRAM_BYTES = 64 << 10
"""On-chip memory of the row-wise algorithm, which keeps as many rows of P and dP as fit."""
LINKS = {
    "Play our two kernels on this shape": "backward",
    "Play the query-outer order on this shape": "backward_q_outer",
    "Play the key-outer order on this shape": "backward_kv_outer",
}


def traffic_view(words: Words, palette: theme.Palette) -> None:
    """Bytes of each way through the backward pass, and folded what moves and what is computed."""
    words.draw("Traffic")
    problem = traffic_problem()
    page, store = st.container(), runs.run_store()
    wanted = [(problem, name) for name in LINKS.values()]
    found = counted_runs(store, runs.backend(store), wanted, "gradients_orders")  # below the rest, which its
    ready = {name: run for (_, name), run in found.items()}  # progress would push down
    forward, backward = ALGORITHMS["flash2"], ALGORITHMS["backward"]
    rows, _ = lesson.row_wise_backward(problem, SRAM_BYTES)
    times = tiles_of(problem.q_len, rows) if rows else 0
    squares = 7 * problem.q_len * problem.kv_len
    least = 8 * problem.q_len * problem.head_dim * problem.itemsize
    counted = {name: f"{lesson.counted_inner_loop_elements(run.trace):,}" for name, run in ready.items()}
    if draft := lesson.draft_run(problem):
        counted[lesson.DRAFT.algorithm] = f"{draft.elements_in_loop:,}"
    orders = (
        {"order": order, "moves": ", ".join(order.blocks), "count": len(order.blocks)}
        | {"counted": counted.get(order.algorithm, "–"), "modelled": order.elements(problem)}
        for order in lesson.LOOP_ORDERS
    )
    with page:
        words.draw(
            "bytes",
            bytes=bytes_figure(byte_bars(problem, ready), least, palette),
            row_wise=words("row-wise", rows=rows, room=SRAM_BYTES, times=times) if rows else "",
            where=where_counted(found),
            links=[(label, problem, name) for label, name in LINKS.items()],
            orders=words.rows("orders", orders),
            problem=problem,
            query=lesson.QUERY_OUTER.elements(problem),
            key=lesson.KEY_OUTER.elements(problem),
            query_bytes=lesson.QUERY_OUTER.requested_bytes(problem),
            key_bytes=lesson.KEY_OUTER.requested_bytes(problem),
            squares=squares,
            squares_bytes=squares * problem.itemsize,
            products=sum(kernel.products for kernel in backward.kernels),
            forward_flops=forward_flops(problem),
            forward_chip=forward.chip_bytes(problem),
            backward_chip=backward.chip_bytes(problem),
            forward_bytes=forward.requested_bytes(problem),
            backward_bytes=backward.requested_bytes(problem),
            **lesson.backward_work(problem),
        )


def traffic_problem(tiles: bool = True) -> AttentionProblem:
    """The reader's shape and tiles, with one head and no mask. Without `tiles` they have no controls."""
    with st.container(horizontal=True, gap="small"):
        length = st.number_input(
            "N, queries and keys", *LENGTHS, 512, 16, key="gradients_tokens", bind="query-params", width=160
        )
        head_dim = choice("d, head_dim", HEAD_DIMS, 32, "gradients_head_dim", 140)
        shape = AttentionProblem(q_len=length, kv_len=length, head_dim=head_dim)
        if not tiles:
            return shape
        return shape.with_(
            block_m=choice("BLOCK_M", TILE_SIZES, 64, "gradients_block_m", 140),
            block_n=choice("BLOCK_N", TILE_SIZES, 64, "gradients_block_n", 140),
        )


def byte_bars(problem: AttentionProblem, ready: Mapping[str, runs.Run]) -> list[ByteBar]:
    """A bar for each way through the backward pass; counted if a kernel, or the draft, has run."""
    bars = [ByteBar("standard", standard_requested(problem, "backward"), None, "standard")]
    rows, moved = lesson.row_wise_backward(problem, SRAM_BYTES)
    bars += [ByteBar(f"row-wise, {format_count(rows, 'row')}", moved, None, "state")] if rows else []
    counted = {name: run.trace.total_bytes for name, run in ready.items()}
    if draft := lesson.draft_run(problem):
        counted[lesson.DRAFT.algorithm] = draft.bytes_moved
    for order in lesson.LOOP_ORDERS:
        modelled = order.requested_bytes(problem)
        bars.append(ByteBar(order.label, modelled, counted.get(order.algorithm), order.color))
    return bars
