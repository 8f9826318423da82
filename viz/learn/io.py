"""Traffic: how many bytes each algorithm moves, by formula and as counted, over T, d, M and the tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.standard.traffic import standard_bytes
from kernels.device.gpus import DEFAULT_GPU, GPUS, Gpu
from kernels.lessons import io as lesson
from kernels.problem import AttentionProblem
from kernels.problem.tiles import count_tiles
from kernels.trace import Trace
from kernels.traffic.modelled import compulsory_bytes
from viz.learn.counts import counted_runs, recorded_counts
from viz.learn.figures.io import ByteBar, Curve, bytes_figure, growth_figure
from viz.learn.io_backward import backward_view
from viz.learn.io_sram import sram_view
from viz.shared import runs, theme
from viz.shared.layout import colors, explore_link, plot

LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
HEAD_DIMS = (16, 32, 64, 128, 256)
MEMORIES_KIB = (16, 32, 64, 96, 128, 163, 192, 227, 256)
BLOCK_ROWS = (16, 32, 64, 128)
POINT_STEPS = 600
"""A point of a curve is counted if its run has at most so many tile steps."""


@dataclass(frozen=True)
class Inputs:
    """What the reader chose: one head, T queries and T keys, float16, no mask."""

    problem: AttentionProblem
    memory_bytes: int
    gpu: Gpu

    @property
    def length(self) -> int:
        return self.problem.q_len

    @property
    def d(self) -> int:
        return self.problem.head_dim

    @property
    def memory(self) -> int:
        """M in elements."""
        return self.memory_bytes // self.problem.itemsize


def show() -> None:
    store = runs.run_store()
    inputs = _inputs()
    with st.container(horizontal=True, gap="large"):
        view = st.segmented_control(
            "View",
            list(VIEWS),
            default="Forward",
            required=True,
            key="io_view",
            bind="query-params",
            label_visibility="collapsed",
        )
        axis = _axis_control()[-1] if view == "Growth" else None
    if axis:
        _growth_view(inputs, axis, store, runs.backend(store))
    else:
        VIEWS[view](inputs, store, runs.backend(store))


def _axis_control() -> str:
    axes = ["against T", "against d", "against M"]
    return st.segmented_control(
        "Axis",
        axes,
        default=axes[0],
        required=True,
        key="io_axis",
        bind="query-params",
        label_visibility="collapsed",
    )


def _inputs() -> Inputs:
    with st.container(horizontal=True, gap="medium"):
        length = _slider("length T", LENGTHS, 1024, "io_t")
        d = _slider("head_dim d", HEAD_DIMS, 64, "io_d")
        memory = _slider("SRAM M, KiB", MEMORIES_KIB, 64, "io_m", "On-chip memory that one program may use.")
        block_m = _slider("BLOCK_M", BLOCK_ROWS, 64, "io_bm", "Rows of a query tile, |I| of the slides.")
        block_n = _slider("BLOCK_N", BLOCK_ROWS, 64, "io_bn", "Rows of a key tile, |J| of the slides.")
        gpu = st.selectbox(
            "GPU", list(GPUS), list(GPUS).index(DEFAULT_GPU), key="io_gpu", bind="query-params", width=130
        )
    problem = AttentionProblem(q_len=length, kv_len=length, head_dim=d, block_m=block_m, block_n=block_n)
    return Inputs(problem, memory << 10, GPUS[gpu])


def _slider(label: str, options: Sequence[int], value: int, key: str, words: str | None = None) -> int:
    return st.select_slider(label, options, value, key=key, bind="query-params", help=words, width=140)


# --- forward ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One algorithm of the forward view. `problem` has the tiles it runs with; `runnable` is False where no kernel has such tiles."""

    algorithm: str
    label: str
    color: str
    problem: AttentionProblem
    formula: str
    on_chip: int
    on_chip_words: str
    modelled: int
    runnable: bool = True


def _forward_view(inputs: Inputs, store: runs.RunStore | None, backend: str) -> None:
    entries = _entries(inputs)
    wanted = [(entry.problem, entry.algorithm) for entry in entries if entry.runnable]
    figure, counting = st.container(), st.container()
    with counting:
        found = counted_runs(store, backend, wanted, "io_forward")
        if backend == "replay":
            recorded_counts()
    traces = {
        entry.algorithm: found[key].trace
        for entry in entries
        if (key := (entry.problem, entry.algorithm)) in found
    }
    totals = {name: trace.total_bytes for name, trace in traces.items()}
    bars = [
        ByteBar(entry.label, entry.modelled, totals.get(entry.algorithm), entry.color) for entry in entries
    ]
    with figure:
        plot(bytes_figure(bars, compulsory_bytes(inputs.problem), colors()), key="io_bytes")
        st.caption(
            "**Counted** (solid): bytes that the loads and stores asked for, "
            + (next(iter(found.values())).provenance if found else "not yet run")
            + "; re-reads may hit the L2 cache, so this is not DRAM traffic. **Modelled** (hatched): the formulas below. One head, float16, no mask."
        )
    _inner_loops(traces)
    for place, entry in zip(st.columns(len(entries)), entries, strict=True):
        with place.container(border=True, height="stretch"):
            _card(entry, totals.get(entry.algorithm), inputs)
    st.caption(
        f"$b={inputs.problem.itemsize}$ bytes an element, $T_r=\\lceil T/\\text{{BLOCK\\_M}}\\rceil={inputs.problem.q_tiles}$, "
        f"$T_c=\\lceil T/\\text{{BLOCK\\_N}}\\rceil={inputs.problem.kv_tiles}$; O of FlashAttention-1 waits in float32. "
        "Standard and row-wise are no Triton kernels: torch runs them tile by tile, and counts the slices it touches."
    )


def _inner_loops(traces: dict[str, Trace]) -> None:
    """Why the query-outer order moves less: what one step of each inner loop asks for, counted."""
    if not {"flash1", "flash2"} <= set(traces):
        return
    first, second = (
        theme.format_bytes(float(np.median(traces[name].bytes_read + traces[name].bytes_written)))
        for name in ("flash1", "flash2")
    )
    st.markdown(
        f"**One step of the inner loop**, counted: FlashAttention-1 asks for **{first}** (Q, O, m, l in; O, m, l out), "
        f"FlashAttention-2 for **{second}** (K, V in): its O, m and l stay on the chip."
    )


def _entries(inputs: Inputs) -> list[Entry]:
    problem, size, d, length = inputs.problem, inputs.problem.itemsize, inputs.d, inputs.length
    tile = lesson.BlockSizes(problem.block_m, problem.block_n)
    four = lesson.elements(lesson.forward_blocks(tile, d)) * size
    in_tile = {"problem": problem, "on_chip": four, "on_chip_words": "Q, O, K/V, S"}
    flash1 = r"2Tdb+T_c\,T(db+8d+16)+T(db-4d+4)"
    flash2 = r"2Tdb+2\,T_r\,Tdb+4T"
    flash = [
        Entry(
            "flash1",
            "FlashAttention-1",
            "value",
            formula=flash1,
            modelled=ALGORITHMS["flash1"].requested_bytes(problem),
            **in_tile,
        ),
        Entry(
            "flash2",
            "FlashAttention-2",
            "flash",
            formula=flash2,
            modelled=ALGORITHMS["flash2"].requested_bytes(problem),
            **in_tile,
        ),
    ]
    standard = Entry(
        "standard", "standard", "standard", problem, r"4T^2b+2Tdb+2\,T_r\,Tdb", length * size,
        "one row of S, for the softmax", ALGORITHMS["standard"].requested_bytes(problem),
    )  # fmt: skip
    return [standard, *_row_wise_entry(inputs), *flash]


def _row_wise_entry(inputs: Inputs) -> list[Entry]:
    """Row-wise attention with as many rows of S as M holds, rounded down to what a tile can have; nothing where not one row fits."""
    problem, length, d = inputs.problem, inputs.length, inputs.d
    rows = lesson.row_wise_rows(length, d, inputs.memory)
    if rows == 0:
        st.caption(
            f"Row-wise is missing: one row of {length:,} scores does not fit into M = {theme.format_kib(inputs.memory_bytes)}."
        )
        return []
    tile = rows if rows == length else lesson.kernel_rows(rows) or rows
    runnable = lesson.kernel_rows(tile) == tile
    modelled = lesson.row_wise_bytes(length, d, tile, problem.itemsize)
    whole = rows == length
    return [
        Entry(
            "row_wise", f"row-wise, {tile:,} rows", "state", problem.with_(block_m=tile) if runnable else problem,
            r"4Tdb" if whole else r"2Tdb+2\lceil T/r\rceil\,Tdb",
            (3 * length * d + length + d if whole else tile * length) * problem.itemsize,
            "Q, K, V, one row of S" if whole else f"r = {tile} rows of S", modelled, runnable,
        )
    ]  # fmt: skip


def _card(entry: Entry, counted: int | None, inputs: Inputs) -> None:
    words = (
        "not counted: no tile has so many rows"
        if not entry.runnable
        else "not counted yet"
        if counted is None
        else f"**{counted:,} B** counted"
    )
    room = theme.format_kib(inputs.memory_bytes)
    verdict = f":green[fits in {room}]" if entry.on_chip <= inputs.memory_bytes else f":red[more than {room}]"
    once = (
        f"{standard_bytes(entry.problem):,} B if K and V cross once, as Explore shows it  \n"
        if entry.algorithm == "standard"
        else ""
    )
    microseconds = theme.format_ms(entry.modelled / inputs.gpu.hbm_bandwidth * 1e3)
    st.markdown(
        f"**{entry.label}**\n\n${entry.formula}$\n\n= **{entry.modelled:,} B** modelled  \n{words}  \n{once}"
        f"{microseconds} at {theme.format_bytes(inputs.gpu.hbm_bandwidth)}/s ({inputs.gpu.name})  \n"
        f"on the chip: {entry.on_chip_words}, {theme.format_kib(entry.on_chip)}, {verdict}"
    )
    if entry.runnable:
        explore_link("Watch it", entry.problem, entry.algorithm)


# --- growth ----------------------------------------------------------------------------------------------------------

CURVE_WORDS = {
    "standard": ("standard", "standard", "solid"),
    "row_wise": ("row-wise", "state", "solid"),
    "flash1": ("FlashAttention-1", "value", "solid"),
    "flash2": ("FlashAttention-2", "flash", "solid"),
    "compulsory": ("inputs and outputs once", "text", "dot"),
    "lower_bound": ("T²d²/M, order of the lower bound", "muted", "dash"),
}


def _growth_view(inputs: Inputs, axis: str, store: runs.RunStore | None, backend: str) -> None:
    sweep = {
        "T": [(length, inputs.d, inputs.memory_bytes) for length in LENGTHS],
        "d": [(inputs.length, d, inputs.memory_bytes) for d in HEAD_DIMS],
        "M": [(inputs.length, inputs.d, kib << 10) for kib in MEMORIES_KIB],
    }[axis]
    at = "TdM".index(axis)
    x = [point[at] if axis != "M" else point[at] >> 10 for point in sweep]
    here = {"T": inputs.length, "d": inputs.d, "M": inputs.memory_bytes >> 10}[axis]
    size = inputs.problem.itemsize
    curves = [
        Curve(
            label,
            x,
            [lesson.curve_bytes(name, length, d, memory // size, size) for length, d, memory in sweep],
            color,
            dash,
        )
        for name, (label, color, dash) in CURVE_WORDS.items()
    ]
    figure, counting = st.container(), st.container()
    runnable = {
        (name, value): problem
        for value, point in zip(x, sweep, strict=True)
        for name in ("flash1", "flash2")
        if (problem := _kernel_problem(name, *point, size)) is not None
    }
    with counting:
        if runnable:
            found = counted_runs(
                store,
                backend,
                [(problem, name) for (name, _), problem in runnable.items()],
                "io_growth",
                ask=True,
            )
        else:
            found = {}
            st.caption(
                "No point can be counted: eq 44 gives tiles that the kernels do not take. Choose M of 16, 32, 64 or 128 KiB, or another d."
            )
    points: dict[str, list] = {}
    for (name, value), problem in runnable.items():
        if (run := found.get((problem, name))) is not None:
            points.setdefault(CURVE_WORDS[name][0], []).append((value, run.trace.total_bytes))
    with figure:
        plot(
            growth_figure(curves, points, {"T": "T", "d": "d", "M": "M, KiB"}[axis], here, colors()),
            key="io_growth",
        )
        st.caption(
            "Lines: **modelled**, with the largest tiles that M allows (eq 44). Dots: **counted** by the kernels, where they take those very tiles. "
            "A line ends where not one row fits. Lower bound: no exact algorithm beats that order for every M from d to Td "
            "(Dao et al. 2022, proposition 3)."
        )
    _growth_table(inputs)


def _kernel_problem(name: str, length: int, d: int, memory_bytes: int, size: int) -> AttentionProblem | None:
    """The problem whose tiles are the curve's own; None where the kernels take no such tiles, or the run would be long."""
    blocks = (
        lesson.query_outer_blocks(memory_bytes // size, d, 4)
        if name == "flash2"
        else lesson.key_outer_blocks(memory_bytes // size, d)
    )
    if blocks.query not in BLOCK_ROWS or blocks.key not in BLOCK_ROWS:
        return None
    problem = AttentionProblem(
        q_len=length, kv_len=length, head_dim=d, block_m=blocks.query, block_n=blocks.key
    )
    return problem if count_tiles(problem).visited <= POINT_STEPS else None


def _growth_table(inputs: Inputs) -> None:
    here = f"T = {inputs.length:,}, d = {inputs.d}, M = {theme.format_kib(inputs.memory_bytes)}"
    st.markdown(f"**Bytes change by this factor**, from {here} (modelled)")
    orders = {
        "standard": "T^2",
        "row_wise": r"T^3d/M,\;\;Td\text{ if all fits}",
        "flash1": "T^2d^2/M",
        "flash2": "T^2d^2/M",
        "compulsory": "Td",
    }
    rows = ["| | order | T doubles | d doubles | M doubles |", "|:--|:--|--:|--:|--:|"]
    for name, order in orders.items():
        factors = lesson.growth(name, inputs.length, inputs.d, inputs.memory, inputs.problem.itemsize)
        cells = ["does not fit" if value is None else f"× {value:.2f}" for value in factors.values()]
        rows.append(f"| {CURVE_WORDS[name][0]} | $O({order})$ | {' | '.join(cells)} |")
    st.markdown("\n".join(rows))
    st.caption(
        "Orders: eq 30, 39, 45 and 50 of Chu, Liu and Lin 2026. Factors differ from the order where tiles round and where Q and O count too."
    )


VIEWS = {
    "Forward": _forward_view,
    "Growth": _growth_view,
    "SRAM": lambda inputs, store, backend: sram_view(inputs.problem, inputs.memory_bytes, inputs.gpu),
    "Backward": lambda inputs, store, backend: backward_view(inputs.problem, inputs.memory, store, backend),
}
