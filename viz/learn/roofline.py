"""Chapter 5, Roofline: whether memory or arithmetic limits each step of attention, on any GPU and shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import streamlit as st

from kernels.device.gpus import GPUS, SHARED_BYTES_PER_CLOCK, Gpu, gpu_named
from kernels.lessons import roofline as lesson
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import LSE_BYTES
from viz.learn.controls import gpu_choice, slider, switch
from viz.learn.counts import counted_runs
from viz.learn.figures.roofline import hierarchy_figure, roofline_figure, times_figure
from viz.shared import runs
from viz.shared.formats import format_bytes, format_flops, format_kib, format_ms, format_ratio, significant
from viz.shared.layout import colors, explore_link, plot

LENGTHS = (1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536)
HEAD_DIMS = (16, 32, 64, 128, 256)
BLOCK_ROWS = (16, 32, 64, 128)
EXAMPLE = AttentionProblem(q_len=1024, kv_len=1024, head_dim=64)
"""The example of Chu, Liu and Lin 2026, which the page starts with."""
EXAMPLE_GPU = "A100"


@dataclass(frozen=True)
class RooflineInputs:
    """What the reader chose: one head, float16, no mask, and a GPU of the list."""

    problem: AttentionProblem
    gpu: Gpu


def show() -> None:
    """Draw the chapter."""
    store = runs.run_store()
    inputs = _inputs(store)
    VIEWS[switch("View", VIEWS, "roofline_view")](inputs, store)
    with st.container(horizontal=True):
        explore_link("Watch the three kernels", inputs.problem, "standard")
        explore_link("Watch the fused kernel", inputs.problem, "flash2")


def _inputs(store: runs.RunStore | None) -> RooflineInputs:
    with st.container(horizontal=True, gap="medium"):
        gpu = GPUS[gpu_choice("roofline_gpu", 140, EXAMPLE_GPU, _gpu_here_words(store))]
        queries = slider("queries", LENGTHS, EXAMPLE.q_len, "roofline_q")
        keys = slider("keys", LENGTHS, EXAMPLE.kv_len, "roofline_k")
        d = slider("head_dim", HEAD_DIMS, EXAMPLE.head_dim, "roofline_d")
        block_m = slider("BLOCK_M", BLOCK_ROWS, EXAMPLE.block_m, "roofline_bm")
        block_n = slider("BLOCK_N", BLOCK_ROWS, EXAMPLE.block_n, "roofline_bn")
    problem = AttentionProblem(q_len=queries, kv_len=keys, head_dim=d, block_m=block_m, block_n=block_n)
    return RooflineInputs(problem, gpu)


def _gpu_here(store: runs.RunStore | None) -> str:
    """Name of this machine's GPU; "" if it has none, or if the worker has not said yet."""
    device = store.client.device if store else None
    return device.name if device and runs.backend(store) == "cuda" else ""


def _gpu_here_words(store: runs.RunStore | None) -> str | None:
    """Which GPU of the list this machine has."""
    name = _gpu_here(store)
    if not name:
        return None
    if listed := gpu_named(name):
        return f"This machine: {name}, in this list as {listed.name}."
    return f"This machine: {name}, which is not in this list; the Measure page measures its ceilings."


def _roofline_view(inputs: RooflineInputs, store: runs.RunStore | None) -> None:
    """The steps under the roof of the GPU."""
    gpu = inputs.gpu
    steps = {case: lesson.steps(inputs.problem, case) for case in lesson.L2_CASES}
    others = [other for other in GPUS.values() if other != gpu]
    more = lesson.other_operations(inputs.problem) if _wants_others() else ()
    plot(roofline_figure(gpu, steps, others, colors(), more), key="roofline_roof")
    st.caption(
        "**Modelled**: bytes and FLOPs of each step by formula, under the roof that the GPU's datasheet "
        "gives (roofline: Williams, Waterman and Patterson 2009). Softmax counts 3 operations per element at "
        "the peak of the tensor cores, like the products; its real peak is lower."
    )
    best, worst = steps["perfect"][3], steps["none"][3]
    peak, bandwidth = format_flops(gpu.fp16_flops), format_bytes(gpu.hbm_bandwidth)
    st.markdown(
        rf"**Ridge of the {gpu.name}**: $\frac{{\text{{{peak}/s}}}}{{\text{{{bandwidth}/s}}}}"
        rf"={significant(gpu.balance)}$ FLOP/B. A step left of it is limited by memory, a step right "
        r"of it by "
        "arithmetic."
    )
    st.markdown(
        f"**Fused**: {significant(best.intensity)} FLOP/B if K and V are re-read from L2 (limited by "
        f"{best.bound_by(gpu)}), {significant(worst.intensity)} if all re-reads go to HBM (limited by "
        f"{worst.bound_by(gpu)}). **Softmax** alone: {significant(steps['perfect'][1].intensity)} for "
        "every shape."
    )
    if more:
        st.markdown(_others_table(more, gpu))
    _ridge_of_the_a100()


def _wants_others() -> bool:
    return st.toggle("Other operations too", key="roofline_others", bind="query-params")


def _others_table(operations: Sequence[lesson.Step], gpu: Gpu) -> str:
    """Operations on the same N queries of D features, and what limits each."""
    rows = ["| beside attention | elements moved | work | FLOP/B | limited by |", "|:--|--:|--:|--:|:--|"]
    rows += [
        f"| **{step.name}** | ${step.moved}$ | {format_flops(step.flops)} | "
        f"**{significant(step.intensity)}** | {step.bound_by(gpu)} |"
        for step in operations
    ]
    return "\n".join(rows)


def _ridge_of_the_a100() -> None:
    gpu = GPUS["A100"]
    ridges = {name: gpu.fp16_flops / bandwidth for name, bandwidth in lesson.A100_BANDWIDTHS.items()}
    words = " · ".join(f"{name}: **{ridge:.0f}** FLOP/B" for name, ridge in ridges.items())
    st.caption(
        f"The much quoted 156 FLOP/B of the A100 is {format_flops(gpu.fp16_flops)}/s over a rounded "
        f"bandwidth. {words}."
    )


def _time_view(inputs: RooflineInputs, store: runs.RunStore | None) -> None:
    """Least times of the steps, and the printed example."""
    steps = lesson.steps(inputs.problem, "perfect")
    plot(times_figure(inputs.gpu, steps, colors()), key="roofline_times")
    three = sum(step.seconds(inputs.gpu) for step in steps[:3]) * 1e3
    fused = steps[3].seconds(inputs.gpu) * 1e3
    st.markdown(
        f"**Modelled on the {inputs.gpu.name}**, one head: three kernels need at least "
        f"**{format_ms(three)}**, the fused one at least **{format_ms(fused)}**: "
        f"{format_ratio(three / fused)}. The longer of the two bars is the time of a kernel; every "
        "re-read hits L2."
    )
    yours, printed = st.columns(2, gap="large")
    with yours.container(border=True, height="stretch"):
        st.markdown("**Your shape**, S and P against the products")
        _memory_against_compute(inputs.problem, inputs.gpu)
    with printed.container(border=True, height="stretch"):
        st.markdown(
            f"**Example of Chu, Liu and Lin 2026**: T = {EXAMPLE.q_len:,}, d = {EXAMPLE.head_dim}, float16, "
            f"{GPUS[EXAMPLE_GPU].name}"
        )
        example = _memory_against_compute(EXAMPLE, GPUS[EXAMPLE_GPU])
        st.caption(
            "For the second line they print 3.74 µs. Their own numbers give "
            f"{_microseconds(example.memory_seconds)} µs. The printed value comes out "
            f"({_microseconds(example.binary_memory_seconds)} µs) if tera is 2⁴⁰ in this line, but 10¹² in "
            "the first. Makers state bandwidth in powers of ten. Memory is the limit either way."
        )


def _memory_against_compute(problem: AttentionProblem, gpu: Gpu) -> lesson.MemoryAgainstCompute:
    """Both times with their formulas."""
    times = lesson.memory_against_compute(
        problem.q_len, problem.kv_len, problem.head_dim, problem.itemsize, gpu
    )
    size = rf"{problem.q_len}\cdot{problem.kv_len}"
    peak, bandwidth = format_flops(gpu.fp16_flops), format_bytes(gpu.hbm_bandwidth)
    flops, moved = rf"4\cdot{size}\cdot{problem.head_dim}", rf"4\cdot{size}\cdot{problem.itemsize}"
    for top, bottom, seconds, words in (
        (rf"{flops}\text{{ FLOP}}", peak, times.compute_seconds, "computing"),
        (rf"{moved}\text{{ B}}", bandwidth, times.memory_seconds, "moving S and P"),
    ):
        st.markdown(
            rf"$\displaystyle\frac{{{top}}}{{\text{{{bottom}/s}}}}={_microseconds(seconds)}$ µs {words}"
        )
    return times


def _microseconds(seconds: float) -> str:
    return significant(seconds * 1e6)


def _tables_view(inputs: RooflineInputs, store: runs.RunStore | None) -> None:
    """The two tables of steps, and the fused kernel's own count."""
    for case, title in (
        ("perfect", "Every re-read hits the L2 cache"),
        ("none", "No re-read hits the L2 cache"),
    ):
        st.markdown(f"**{title}**, modelled")
        st.markdown(_table(lesson.steps(inputs.problem, case), inputs.gpu))
    problem, fused = inputs.problem, lesson.steps(inputs.problem, "none")[3]
    wanted = (problem, "flash2")
    with st.container():
        run = counted_runs(store, runs.backend(store), [wanted], "roofline_count").get(wanted)
    if run:
        counted = run.trace.total_bytes
        st.markdown(
            f"**Counted** by our fused kernel, {run.provenance}: **{counted:,} B**; without lse ({LSE_BYTES} "
            f"bytes per row) {counted - LSE_BYTES * problem.q_len:,} B, the table's {fused.bytes:,} B."
        )
    printed = lesson.printed_fused_elements(problem)
    printed_intensity = significant(fused.flops / (printed * problem.itemsize))
    best = problem.block_m * problem.block_n / (problem.block_m + problem.block_n)
    st.caption(
        "Tables of MSRA SH Triton Study Group 2025, with two changes. They count a multiplication with its "
        "addition as one operation, and elements instead of bytes: in float16 the ratio is the same. And in "
        f"their fused row without a cache, Q and O cross the bus once for every key tile: {printed:,} "
        f"elements, {printed_intensity} FLOP/B. But a program keeps its query tile and its part of O, so it "
        f"is {fused.elements:,}. Their “best intensity” $T_QT_K/(T_Q+T_K)$ is {significant(best)} for "
        "your tiles."
    )


def _table(steps: Sequence[lesson.Step], gpu: Gpu) -> str:
    rows = [
        "| | elements moved | bytes | work | FLOP/B | limited by | least time | against S |",
        "|:--|:--|--:|--:|--:|:--|--:|--:|",
    ]
    for step in steps:
        seconds = step.seconds(gpu)
        rows.append(
            f"| **{step.name}** | ${step.moved}$ | {format_bytes(step.bytes)} | "
            f"{format_flops(step.flops)} "
            f"| **{significant(step.intensity)}** | {step.bound_by(gpu)} | "
            f"{format_ms(seconds * 1e3)} "
            f"| {significant(seconds / steps[0].seconds(gpu), 2)} |"
        )
    return "\n".join(rows)


def _memory_view(inputs: RooflineInputs, store: runs.RunStore | None) -> None:
    """Sizes and speeds of the memories of all GPUs."""
    gpu = inputs.gpu
    plot(hierarchy_figure(list(GPUS.values()), gpu, colors()), key="roofline_hierarchy")
    ratio = format_ratio(gpu.sram_bandwidth / gpu.hbm_bandwidth)
    st.markdown(
        f"**{gpu.name}**: the SRAM of all {gpu.sm_count} SMs is **{ratio}** as fast as HBM, and "
        f"**{gpu.hbm_bytes / gpu.sram_bytes:,.0f} times** smaller."
    )
    st.markdown(_memory_table(_gpu_here(store)))
    st.caption(
        f"From datasheets, not measured. SRAM bandwidth is derived: {SHARED_BYTES_PER_CLOCK} bytes "
        f"per clock and SM, at the clock that the peak implies ({significant(gpu.clock_hz / 1e9)} GHz "
        f"for the {gpu.name}). SRAM is L1 cache and shared memory together; in addition there are registers, "
        f"{format_kib(gpu.register_bytes_per_sm)} per SM. Source for the {gpu.name}: {gpu.source}."
    )


def _memory_table(gpu_here: str) -> str:
    rows = [
        "| | HBM | HBM bandwidth | L2 | SRAM, all SMs | per program | SRAM bandwidth | peak, float16 | "
        "ridge, FLOP/B |",
        "|:--|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    own = gpu_named(gpu_here)
    for gpu in GPUS.values():
        mark = " (this machine)" if gpu == own else ""
        rows.append(
            f"| **{gpu.name}**{mark} | {format_bytes(gpu.hbm_bytes)} | "
            f"{format_bytes(gpu.hbm_bandwidth)}/s "
            f"| {format_bytes(gpu.l2_bytes)} "
            f"| {gpu.sm_count} × {format_kib(gpu.l1_bytes_per_sm)} = "
            f"{format_bytes(gpu.sram_bytes)} "
            f"| {format_kib(gpu.shared_bytes_per_program)} | "
            f"{format_bytes(gpu.sram_bandwidth)}/s "
            f"| {format_flops(gpu.fp16_flops)}/s | {significant(gpu.balance)} |"
        )
    return "\n".join(rows)


VIEWS: dict[str, Callable[[RooflineInputs, runs.RunStore | None], None]] = {
    "Roofline": _roofline_view,
    "Time": _time_view,
    "Tables": _tables_view,
    "Memory": _memory_view,
}
