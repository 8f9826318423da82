"""Traffic of the forward pass: one bar and one card for each algorithm, modelled and counted."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.standard.traffic import standard_bytes
from kernels.lessons import io as lesson
from kernels.problem import AttentionProblem
from kernels.trace import Trace
from viz.learn.comparing import compared
from viz.learn.counts import counted_runs, recorded_counts, where_counted
from viz.learn.figures.io import ByteBar, bytes_figure
from viz.learn.io_inputs import TrafficInputs
from viz.shared import runs
from viz.shared.formats import format_bytes, format_kib, format_ms
from viz.shared.layout import colors, explore_link, plot

INNER_LOOPS = {"flash1": ("Q", "O", "m", "l"), "flash2": ("K", "V")}
"""Algorithm -> the tensors that a step of its inner loop moves."""


@dataclass(frozen=True)
class ForwardEntry:
    """One algorithm of the forward view."""

    algorithm: str
    label: str
    color: str
    problem: AttentionProblem
    """With the tiles that the algorithm runs with."""
    formula: str
    on_chip: int
    """Bytes."""
    on_chip_words: str
    modelled: int
    """Bytes."""
    runnable: bool = True
    """False if no kernel accepts these tiles."""


def forward_view(inputs: TrafficInputs, store: runs.RunStore | None, backend: str) -> None:
    """The figure, the inner loops, and a card with the formula of each algorithm."""
    entries = _entries(inputs)
    wanted = [(entry.problem, entry.algorithm) for entry in entries if entry.runnable]
    figure, counting = st.container(), st.container()
    with counting:
        ready = counted_runs(store, backend, wanted, "io_forward")
        if backend == "replay":
            recorded_counts()
    traces = {algorithm: run.trace for (_, algorithm), run in ready.items()}
    totals = {name: trace.total_bytes for name, trace in traces.items()}
    bars = [
        ByteBar(entry.label, entry.modelled, totals.get(entry.algorithm), entry.color) for entry in entries
    ]
    problem = inputs.problem
    with figure:
        least = lesson.compulsory_bytes(problem.q_len, problem.head_dim, problem.itemsize)
        plot(bytes_figure(bars, least, colors()), key="io_bytes")
        st.caption(
            "**Counted** (solid): bytes that the loads and stores asked for, "
            f"{where_counted(ready)}; re-reads may hit the L2 "
            "cache, so this is not DRAM traffic. **Modelled** (hatched): the formulas below. One head, "
            "float16, no mask. Least possible: Q, K and V in, O out; lse, which not every algorithm keeps, "
            "is left out."
        )
    _inner_loops(traces)
    for column, entry in zip(st.columns(len(entries)), entries, strict=True):
        with column.container(border=True, height="stretch"):
            _card(entry, totals.get(entry.algorithm), inputs)
    st.caption(
        f"$b={problem.itemsize}$ bytes per element, "
        f"$T_r=\\lceil T/\\text{{BLOCK\\_M}}\\rceil={problem.q_tiles}$, "
        f"$T_c=\\lceil T/\\text{{BLOCK\\_N}}\\rceil={problem.kv_tiles}$. O of FlashAttention-1 waits in HBM "
        "in float32. Standard and row-wise attention are not Triton kernels: torch runs them tile by tile, "
        "and counts the slices that it reads and writes."
    )


def _inner_loops(traces: dict[str, Trace]) -> None:
    """What one step of each inner loop asks for, counted: it decides which order moves less."""
    if not set(INNER_LOOPS) <= set(traces):
        return
    first, second = (lesson.inner_step_bytes(traces[name], moved) for name, moved in INNER_LOOPS.items())
    st.markdown(
        f"**One step of the inner loop**, counted: FlashAttention-1 asks for **{format_bytes(first)}** (Q, "
        f"O, m, l in; O, m, l out), FlashAttention-2 for **{format_bytes(second)}** (a tile of K and one of "
        f"V in), {compared(second, first)} FlashAttention-1. Both take as many steps. Not in it: what "
        "a program loads or stores once, Q, O and lse of FlashAttention-2, K and V of FlashAttention-1."
    )


def _entries(inputs: TrafficInputs) -> list[ForwardEntry]:
    problem, size = inputs.problem, inputs.problem.itemsize
    tile = lesson.BlockSizes(problem.block_m, problem.block_n)
    in_tile = lesson.elements(lesson.forward_blocks(tile, inputs.d)) * size
    standard = ForwardEntry(
        "standard",
        "standard",
        "standard",
        problem,
        formula=r"4T^2b+2Tdb+2\,T_r\,Tdb",
        on_chip=inputs.length * size,
        on_chip_words="one row of S, for the softmax",
        modelled=ALGORITHMS["standard"].requested_bytes(problem),
    )
    flash = [
        ForwardEntry(
            algorithm,
            label,
            color,
            problem,
            formula,
            on_chip=in_tile,
            on_chip_words="Q, O, K/V, S",
            modelled=ALGORITHMS[algorithm].requested_bytes(problem),
        )
        for algorithm, label, color, formula in (
            ("flash1", "FlashAttention-1", "value", r"2Tdb+T_c\,T(db+8d+16)+T(db-4d+4)"),
            ("flash2", "FlashAttention-2", "flash", r"2Tdb+2\,T_r\,Tdb+4T"),
        )
    ]
    return [standard, *_row_wise_entry(inputs), *flash]


def _row_wise_entry(inputs: TrafficInputs) -> list[ForwardEntry]:
    """Row-wise attention with as many rows of S as fit into M, rounded down to a tile; empty if none fits."""
    problem, length, d = inputs.problem, inputs.length, inputs.d
    rows = lesson.row_wise_rows(length, d, inputs.memory)
    if rows == 0:
        st.caption(
            f"Row-wise is missing: one row of {length:,} scores does not fit into "
            f"M = {format_kib(inputs.memory_bytes)}."
        )
        return []
    all_rows = rows == length
    tile = rows if all_rows else lesson.kernel_rows(rows) or rows
    runnable = lesson.kernel_rows(tile) == tile
    elements_on_chip = 3 * length * d + length + d if all_rows else tile * length
    entry = ForwardEntry(
        "row_wise",
        f"row-wise, {tile:,} rows",
        "state",
        problem.with_(block_m=tile) if runnable else problem,
        formula=r"4Tdb" if all_rows else r"2Tdb+2\lceil T/r\rceil\,Tdb",
        on_chip=elements_on_chip * problem.itemsize,
        on_chip_words="Q, K, V, one row of S" if all_rows else f"r = {tile} rows of S",
        modelled=lesson.row_wise_bytes(length, d, tile, problem.itemsize),
        runnable=runnable,
    )
    return [entry]


def _card(entry: ForwardEntry, counted: int | None, inputs: TrafficInputs) -> None:
    """Formula, bytes, time at the GPU's bandwidth, and what is on the chip."""
    if not entry.runnable:
        counted_words = "not counted: no tile has so many rows"
    elif counted is None:
        counted_words = "not counted yet"
    else:
        counted_words = f"**{counted:,} B** counted"
    room = format_kib(inputs.memory_bytes)
    verdict = f":green[fits in {room}]" if entry.on_chip <= inputs.memory_bytes else f":red[more than {room}]"
    once = ""
    if entry.algorithm == "standard":
        once = f"{standard_bytes(entry.problem):,} B if K and V cross once, as Explore shows it  \n"
    least_time = format_ms(entry.modelled / inputs.gpu.hbm_bandwidth * 1e3)
    st.markdown(
        f"**{entry.label}**\n\n${entry.formula}$\n\n= **{entry.modelled:,} B** modelled  \n{counted_words}  "
        f"\n{once}{least_time} at {format_bytes(inputs.gpu.hbm_bandwidth)}/s ({inputs.gpu.name})  \n"
        f"on the chip: {entry.on_chip_words}, {format_kib(entry.on_chip)}, {verdict}"
    )
    if entry.runnable:
        explore_link("Watch it", entry.problem, entry.algorithm)
