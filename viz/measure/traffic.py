"""The traffic panel: four numbers of one shape for naive attention and for our kernels, and the kernels one by one."""

from __future__ import annotations

import streamlit as st

from kernels.algorithms.flash2.entry import ENTRY as FLASH2
from kernels.measure.counters import CounterRun
from kernels.measure.four_numbers import Number, cache_share, our_numbers, standard_numbers
from kernels.problem import AttentionProblem
from kernels.traffic.operations import Operation
from kernels.worker.client import JobFailure
from viz.measure.controls import Choice, problem_at
from viz.measure.figures.four_numbers import four_numbers_figure
from viz.measure.sources import Source
from viz.shared import runs, theme
from viz.shared.layout import colors, plot

CHOSEN = "chosen at the side"
EXPLAINED = (
    "**Modelled**: a formula. **Requested**: what loads and stores asked for, counted; caches serve most of it. **Compulsory**: the least any "
    "kernel can move. **DRAM**: what the L2 could not serve, by the GPU's own counters. The two sides have scales of their own."
)


def traffic_panel(store: runs.RunStore | None, backend: str, shown: list[Source], choice: Choice) -> None:
    """Shapes with hardware counters first; any other shape has three of the four numbers."""
    counters = [run for source in shown for run in source.document.counters]
    problem = _problem_choice(counters, choice)
    st.caption(EXPLAINED)
    for direction in choice.directions:
        if len(choice.directions) > 1:
            st.markdown(f"**{direction}**")
        runs_here = {
            run.peer: run for run in counters if (run.problem, run.direction) == (problem, direction)
        }
        naive, ours = runs_here.get("naive"), runs_here.get("ours")
        operations = naive.counted if naive else _count_naive(store, backend, problem, direction)
        standard = standard_numbers(problem, direction, operations, naive)
        counted = ours.counted if ours else _count_ours(store, backend, problem, direction)
        flash = our_numbers(problem, direction, counted, ours)
        left, right = st.columns(2, gap="large")
        with left:
            plot(
                four_numbers_figure("standard attention", standard, colors().standard, colors()),
                key=f"four-standard-{direction}",
            )
            _share_words("Standard attention", standard, naive)
        with right:
            plot(
                four_numbers_figure("our kernels", flash, colors().flash, colors()),
                key=f"four-ours-{direction}",
            )
            _share_words("Our kernels", flash, ours)
        if runs_here:
            _kernel_table(list(runs_here.values()), direction)


def _problem_choice(counters: list[CounterRun], choice: Choice) -> AttentionProblem:
    """One of the shapes whose counters are recorded, or the one chosen at the side."""
    recorded = {_words(run.problem): run.problem for run in counters}
    options = [*recorded, CHOSEN]
    here = problem_at(choice.view, "length", choice.view.length, choice.view.dtype)
    first = next(
        (
            words
            for words, problem in recorded.items()
            if (problem.head_dim, problem.mask) == (here.head_dim, here.mask)
        ),
        options[0],
    )
    picked = st.selectbox(
        "Shape",
        options,
        options.index(first),
        key="shape",
        bind="query-params",
        help="Shapes with hardware counters, or your own.",
    )
    if picked in recorded:
        return recorded[picked]
    st.caption(f"{_words(here)}, {here.batch} x {here.q_heads} heads")
    return here


def _words(problem: AttentionProblem) -> str:
    heads = problem.batch * problem.q_heads
    lengths = f"{theme.format_length(problem.q_len)} x {theme.format_length(problem.kv_len)}"
    return f"{lengths}, {heads} heads of {problem.head_dim}, {problem.mask}, {problem.dtype}"


def _count_naive(
    store: runs.RunStore | None, backend: str, problem: AttentionProblem, direction: str
) -> tuple[Operation, ...]:
    """Counted in the worker, on shapes alone: milliseconds."""
    if store is None or backend in ("replay", "starting"):
        return ()
    job = store.operations(problem, direction)
    if not job.wait(2.0):
        return ()
    try:
        return tuple(Operation(**values) for values in job.result(0)[0]["operations"])
    except JobFailure as error:
        st.warning(f"Not counted: {error}", icon=":material/error:")
        return ()


def _count_ours(
    store: runs.RunStore | None, backend: str, problem: AttentionProblem, direction: str
) -> tuple[Operation, ...]:
    """Counted by running the forward kernel on one head, where that is quick; every head asks for the same."""
    if store is None or backend in ("replay", "starting") or direction != "forward":
        return ()
    head = problem.with_(batch=1, q_heads=1, kv_heads=1)
    heads = problem.batch * problem.q_heads
    job = store.peek("trace", head, FLASH2.name)
    seconds = runs.estimated_seconds(head, FLASH2, backend)
    if job is None and (
        seconds < runs.IMMEDIATE_S
        or st.button(f"Count our kernel here (about {seconds:.0f} s)", icon=":material/calculate:")
    ):
        job = store.trace(head, FLASH2.name)
    if job is None or not job.wait(3.0):
        return ()
    try:
        trace = runs.finished_run(job).trace
    except JobFailure as error:
        st.warning(f"Not counted: {error}", icon=":material/error:")
        return ()
    read, written = int(trace.tensor_bytes_read.sum()), int(trace.tensor_bytes_written.sum())
    return (
        Operation(
            FLASH2.kernels[0].name, heads * read, heads * written, f"{head.block_m}x{head.block_n} tiles"
        ),
    )


def _share_words(label: str, numbers: tuple[Number, ...], counters: CounterRun | None) -> None:
    """The caches' share in one sentence, and why DRAM can move less than the compulsory bytes."""
    of = {number.kind: number for number in numbers}
    requested, dram, least = of["requested"], of["DRAM"], of["compulsory"]
    if counters is None or dram.bytes is None:
        st.caption(
            "DRAM bytes come from hardware counters: `python -m kernels.record --parts counters` on a GPU that allows them."
        )
        return
    share = cache_share(requested, dram)
    asked = (
        ""
        if share is None
        else f" asked for {theme.format_bytes(requested.bytes)}; the caches served **{share:.0%}** of it"
    )
    words = f"{label}{asked}: {theme.format_bytes(counters.l2_bytes)} passed the L2, {theme.format_bytes(dram.bytes)} crossed DRAM."
    if requested.bytes and dram.bytes > requested.bytes:
        words += " More than its tensors hold: one torch operation may run several kernels, with tensors between them."
    if dram.bytes < least.bytes:
        words += " That is under the compulsory bytes because what was written last still lay in the L2 when the counting ended."
    else:
        words += f" That is {theme.format_ratio(dram.bytes / least.bytes)} the compulsory bytes."
    st.caption(words)


def _kernel_table(found: list[CounterRun], direction: str) -> None:
    with st.expander("Kernel by kernel, by the hardware counters", icon=":material/table:"):
        st.dataframe(kernel_rows(found), hide_index=True, key=f"kernels-{direction}", height="content")
        st.caption(
            "Each kernel begins with an empty L2. L2 bytes count every access to it, from the SMs and from DRAM. Clocks were left as they are."
        )


def kernel_rows(found: list[CounterRun]) -> dict[str, list[str]]:
    """A row a kernel: its time, its DRAM and L2 bytes, how busy the tensor cores were."""
    kernels = [(run, kernel) for run in found for kernel in run.kernels]
    tensor = [
        "–" if kernel.tensor_percent is None else f"{kernel.tensor_percent:.0f} %" for _, kernel in kernels
    ]
    return {
        "by": [run.peer for run, _ in kernels],
        "kernel": [kernel.short_name for _, kernel in kernels],
        "time": [theme.format_ms(kernel.time_ms) for _, kernel in kernels],
        "DRAM read": [theme.format_bytes(kernel.dram_read_bytes) for _, kernel in kernels],
        "DRAM written": [theme.format_bytes(kernel.dram_written_bytes) for _, kernel in kernels],
        "L2": [theme.format_bytes(kernel.l2_bytes) for _, kernel in kernels],
        "tensor cores busy": tensor,
    }
