"""Traffic of the backward pass: the standard one, row-wise, and both loop orders, modelled and counted."""

from __future__ import annotations

import streamlit as st

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.standard.traffic import standard_bytes
from kernels.lessons import io as lesson
from kernels.lessons.backward_traffic import LOOP_ORDERS, counted_inner_loop_elements, inner_loop_elements
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import compulsory_bytes
from viz.learn.counts import counted_runs
from viz.learn.figures.io import ByteBar, bytes_figure
from viz.shared import runs
from viz.shared.layout import colors, explore_link, plot


def backward_view(problem: AttentionProblem, memory: int, store: runs.RunStore | None, backend: str) -> None:
    """`memory` is M in elements."""
    figure = st.container()
    wanted = [(problem, "backward_q_outer"), (problem, "backward")]
    with st.container():
        found = {
            algorithm: run
            for (_, algorithm), run in counted_runs(store, backend, wanted, "io_backward").items()
        }
    with figure:
        plot(
            bytes_figure(_bars(problem, memory, found), compulsory_bytes(problem, "backward"), colors()),
            key="io_backward_bytes",
        )
        st.caption(
            "**Counted** (solid) for the two orders that are kernels here, "
            + (next(iter(found.values())).provenance if found else "not yet run")
            + ". **Modelled** (hatched): one head, float16, no mask; sums that wait in HBM are float32."
        )
    st.markdown("**One step of the inner loop**: what the slides count, and what has to move")
    st.markdown(_loop_table(problem, found))
    st.caption(
        "The slides compare $4\\,T_r|J|d$ with $3\\,T_c|I|d$, which is one turn of the other loop: the whole pass moves $4\\,T_rTd$ and $3\\,T_cTd$. "
        "And a sum that is stored at every step is loaded at every step, so it is 6 against 4. The key-outer order still wins. "
        "Our two kernels keep every sum on the chip, so nothing is stored inside a loop, at the price of computing S twice."
    )
    with st.container(horizontal=True):
        explore_link("Watch the query-outer order", problem, "backward_q_outer")
        explore_link("Watch our two kernels", problem, "backward")


def _bars(problem: AttentionProblem, memory: int, found: dict[str, runs.Run]) -> list[ByteBar]:
    length, d, size = problem.q_len, problem.head_dim, problem.itemsize
    tile = lesson.BlockSizes(problem.block_m, problem.block_n)
    counted = {algorithm: run.trace.total_bytes for algorithm, run in found.items()}
    rows = lesson.row_wise_backward_rows(length, d, memory)
    bars = [ByteBar("standard, 7 T²", standard_bytes(problem, "backward"), None, "standard")]
    if rows:
        label = f"row-wise, {rows:,} {'row' if rows == 1 else 'rows'}"
        bars.append(ByteBar(label, lesson.row_wise_backward_bytes(length, d, rows, size), None, "state"))
    outer = {
        "label": "query outside (alg. 6)",
        "color": "query",
        "modelled": ALGORITHMS["backward_q_outer"].requested_bytes(problem),
    }
    ours = {
        "label": "our two kernels",
        "color": "flash",
        "modelled": ALGORITHMS["backward"].requested_bytes(problem),
    }
    return [
        *bars,
        ByteBar(counted=counted.get("backward_q_outer"), **outer),
        ByteBar(
            "key outside, draft (alg. 7)",
            lesson.key_outer_backward_bytes(length, d, tile, size, True),
            None,
            "value",
        ),
        ByteBar(
            "key outside (alg. 8)",
            lesson.key_outer_backward_bytes(length, d, tile, size, False),
            None,
            "value",
        ),
        ByteBar(counted=counted.get("backward"), **ours),
    ]


def _loop_table(problem: AttentionProblem, found: dict[str, runs.Run]) -> str:
    rows = [
        "| order | a step moves | blocks, as the slides count | blocks | elements, counted | elements, modelled |",
        "|:--|:--|--:|--:|--:|--:|",
    ]
    for order in LOOP_ORDERS:
        blocks = [*order.q_blocks, *order.kv_blocks]
        run = found.get(order.algorithm)
        counted = "–" if run is None else f"{counted_inner_loop_elements(run.trace):,}"
        rows.append(
            f"| {order.label} ({order.slug}) | {', '.join([*blocks, *order.read_back])} | {len(blocks)} | {len(blocks) + len(order.read_back)} "
            f"| {counted} | {inner_loop_elements(order, problem, read_back=True):,} |"
        )
    return "\n".join(rows)
