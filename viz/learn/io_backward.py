"""Traffic of the backward pass: the standard one, row-wise, and both loop orders, modelled and counted."""

from __future__ import annotations

import streamlit as st

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.standard.traffic import standard_bytes
from kernels.lessons import io as lesson
from kernels.lessons.backward_run import can_run, key_outer_run
from kernels.lessons.backward_traffic import LOOP_ORDERS, inner_loop_elements
from kernels.problem import AttentionProblem
from viz.learn.backward_words import counted_elements, loop_order_words
from viz.learn.counts import counted_runs, where_counted
from viz.learn.figures.io import ByteBar, bytes_figure
from viz.shared import runs
from viz.shared.layout import colors, explore_link, plot


def backward_view(problem: AttentionProblem, memory: int, store: runs.RunStore | None, backend: str) -> None:
    """Bytes of each algorithm, and what one step of each inner loop moves. `memory` is M in elements."""
    figure = st.container()
    wanted = [(problem, "backward_q_outer"), (problem, "backward")]
    with st.container():
        counted = counted_runs(store, backend, wanted, "io_backward")
    ready = {algorithm: run for (_, algorithm), run in counted.items()}
    with figure:
        bars = _bars(problem, memory, ready)
        least = lesson.compulsory_bytes(problem.q_len, problem.head_dim, problem.itemsize, "backward")
        plot(bytes_figure(bars, least, colors()), key="io_backward_bytes")
        st.caption(
            "**Counted** (solid): algorithm 6 and our two kernels by the kernels, "
            f"{where_counted(counted)}; algorithms 7 and 8 by a "
            "tile-by-tile run in NumPy, if it is short. **Modelled** (hatched): "
            "one head, float16, no mask; sums that wait in HBM are float32. Algorithms (alg.) of Chu, Liu "
            "and Lin 2026."
        )
    st.markdown("**One step of the inner loop**: what Chu, Liu and Lin 2026 count, and what has to move")
    st.markdown(_loop_table(problem, ready))
    st.caption(
        "Chu, Liu and Lin 2026 compare $4\\,T_r|J|d$ with $3\\,T_c|I|d$, which is one turn of the other "
        "loop: the whole pass moves $4\\,T_rTd$ and $3\\,T_cTd$. Also, a sum that is stored at every step is "
        "loaded at every step, which makes it 6 against 4. Our two kernels keep every sum on the chip, so no "
        "inner loop stores anything; the price is that S and dP are computed twice. Algorithms 7 and 8 are "
        "counted by a tile-by-tile run in NumPy, if it is short."
    )
    st.markdown(loop_order_words(problem))
    with st.container(horizontal=True):
        explore_link("Watch the query-outer order", problem, "backward_q_outer")
        explore_link("Watch our two kernels", problem, "backward")


def _bars(problem: AttentionProblem, memory: int, ready: dict[str, runs.Run]) -> list[ByteBar]:
    length, d, size = problem.q_len, problem.head_dim, problem.itemsize
    tile = lesson.BlockSizes(problem.block_m, problem.block_n)
    rows = lesson.row_wise_backward_rows(length, d, memory)
    bars = [ByteBar("standard, 7 T²", standard_bytes(problem, "backward"), None, "standard")]
    if rows:
        label = f"row-wise, {rows:,} {'row' if rows == 1 else 'rows'}"
        bars.append(ByteBar(label, lesson.row_wise_backward_bytes(length, d, rows, size), None, "state"))
    draft, key_outer = (
        lesson.key_outer_backward_bytes(length, d, tile, size, gamma_each_step)
        for gamma_each_step in (True, False)
    )
    return [
        *bars,
        _kernel_bar("query outside (alg. 6)", "query", "backward_q_outer", problem, ready),
        ByteBar("key outside, draft (alg. 7)", draft, _run_bytes(problem, True), "value"),
        ByteBar("key outside (alg. 8)", key_outer, _run_bytes(problem, False), "value"),
        _kernel_bar("our two kernels", "flash", "backward", problem, ready),
    ]


def _run_bytes(problem: AttentionProblem, d_each_step: bool) -> int | None:
    """Bytes of a tile-by-tile run; None if it would be long."""
    return key_outer_run(problem, d_each_step).bytes_moved if can_run(problem) else None


def _kernel_bar(
    label: str, color: str, algorithm: str, problem: AttentionProblem, ready: dict[str, runs.Run]
) -> ByteBar:
    """A bar of an algorithm that is a kernel of ours."""
    counted = ready[algorithm].trace.total_bytes if algorithm in ready else None
    return ByteBar(label, ALGORITHMS[algorithm].requested_bytes(problem), counted, color)


def _loop_table(problem: AttentionProblem, ready: dict[str, runs.Run]) -> str:
    rows = [
        "| order | a step moves | blocks, as they count | blocks | elements, counted | elements, modelled |",
        "|:--|:--|--:|--:|--:|--:|",
    ]
    elements = counted_elements(problem, ready)
    for order in LOOP_ORDERS:
        blocks = [*order.q_blocks, *order.kv_blocks]
        all_blocks = [*blocks, *order.read_back]
        counted = f"{elements[order.slug]:,}" if order.slug in elements else "–"
        modelled = inner_loop_elements(order, problem, read_back=True)
        rows.append(
            f"| {order.label} ({order.slug}) | {', '.join(all_blocks)} | {len(blocks)} | {len(all_blocks)} "
            f"| {counted} | {modelled:,} |"
        )
    return "\n".join(rows)
