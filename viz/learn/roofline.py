"""Roofline: what sets the pace of each step of attention, the memory or the arithmetic, on any GPU and shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import streamlit as st

from kernels.device.gpus import GPUS, SHARED_BYTES_PER_CLOCK, Gpu
from kernels.lessons import roofline as lesson
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import LSE_BYTES
from viz.learn.counts import counted_runs
from viz.learn.figures.roofline import hierarchy_figure, roofline_figure, times_figure
from viz.shared import runs, theme
from viz.shared.layout import colors, explore_link, plot

LENGTHS = (1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536)
HEAD_DIMS = (16, 32, 64, 128, 256)
BLOCK_ROWS = (16, 32, 64, 128)
SLIDE = AttentionProblem(q_len=1024, kv_len=1024, head_dim=64)
"""The example of Chu, Liu and Lin 2026, which the page starts with."""
SLIDE_GPU = "A100"


@dataclass(frozen=True)
class Inputs:
    """What the reader chose: one head, float16, no mask, on a GPU of the list."""

    problem: AttentionProblem
    gpu: Gpu


def show() -> None:
    store = runs.run_store()
    inputs = _inputs(store)
    view = st.segmented_control(
        "View",
        list(VIEWS),
        default="Roofline",
        required=True,
        key="roofline_view",
        bind="query-params",
        label_visibility="collapsed",
    )
    VIEWS[view](inputs, store)
    with st.container(horizontal=True):
        explore_link("Watch the three kernels", inputs.problem, "standard")
        explore_link("Watch the fused kernel", inputs.problem, "flash2")


def _inputs(store: runs.RunStore | None) -> Inputs:
    with st.container(horizontal=True, gap="medium"):
        gpu = st.selectbox(
            "GPU",
            list(GPUS),
            list(GPUS).index(SLIDE_GPU),
            key="roofline_gpu",
            bind="query-params",
            width=140,
            help=_at_hand(store),
        )
        queries = _slider("queries", LENGTHS, SLIDE.q_len, "roofline_q")
        keys = _slider("keys", LENGTHS, SLIDE.kv_len, "roofline_k")
        d = _slider("head_dim", HEAD_DIMS, SLIDE.head_dim, "roofline_d")
        block_m = _slider("BLOCK_M", BLOCK_ROWS, SLIDE.block_m, "roofline_bm")
        block_n = _slider("BLOCK_N", BLOCK_ROWS, SLIDE.block_n, "roofline_bn")
    return Inputs(
        AttentionProblem(q_len=queries, kv_len=keys, head_dim=d, block_m=block_m, block_n=block_n), GPUS[gpu]
    )


def _slider(label: str, options: Sequence[int], value: int, key: str) -> int:
    return st.select_slider(label, options, value, key=key, bind="query-params", width=140)


def _at_hand(store: runs.RunStore | None) -> str | None:
    """What is known of the device at hand: which of the listed GPUs it is."""
    if runs.backend(store) != "cuda":
        return None
    name = store.client.device.name
    listed = next((key for key in GPUS if key in name), None)
    if listed:
        return f"At hand: {name}, in this list as {listed}."
    return f"At hand: {name}, which is not in this list; the Measure page takes its ceilings."


# --- roofline ---------------------------------------------------------------------------------------------------------


def _roofline_view(inputs: Inputs, store: runs.RunStore | None) -> None:
    gpu = inputs.gpu
    steps = {case: lesson.steps(inputs.problem, case) for case in lesson.L2_CASES}
    plot(
        roofline_figure(gpu, steps, [other for other in GPUS.values() if other != gpu], colors()),
        key="roofline_roof",
    )
    st.caption(
        "**Modelled**: bytes and FLOPs of each step by formula, placed on the roof that the GPU's datasheet gives. Softmax: 3 operations an element, "
        "put at the tensor cores' peak like the products, which flatters it."
    )
    best, worst = steps["perfect"][3], steps["none"][3]
    peak, bandwidth = theme.format_flops(gpu.fp16_flops), theme.format_bytes(gpu.hbm_bandwidth)
    st.markdown(
        rf"**Ridge of the {gpu.name}**: $\frac{{\text{{{peak}/s}}}}{{\text{{{bandwidth}/s}}}}={theme.significant(gpu.balance)}$ FLOP/B. "
        "Left of it the memory sets the pace, right of it the arithmetic."
    )
    st.markdown(
        f"**Fused**: {theme.significant(best.intensity)} FLOP/B if K and V are re-read from L2 ({best.bound_by(gpu)} sets the pace), "
        f"{theme.significant(worst.intensity)} if all re-reads go to HBM ({worst.bound_by(gpu)}). "
        f"**Softmax** alone: {theme.significant(steps['perfect'][1].intensity)}, whatever the shape."
    )
    _ridge_of_the_a100()


def _ridge_of_the_a100() -> None:
    gpu = GPUS["A100"]
    ridges = {name: gpu.fp16_flops / bandwidth for name, bandwidth in lesson.A100_BANDWIDTHS.items()}
    words = " · ".join(f"{name}: **{ridge:.0f}** FLOP/B" for name, ridge in ridges.items())
    st.caption(
        f"The much quoted 156 FLOP/B of the A100 is {theme.format_flops(gpu.fp16_flops)}/s over a rounded bandwidth. {words}."
    )


# --- time -------------------------------------------------------------------------------------------------------------


def _time_view(inputs: Inputs, store: runs.RunStore | None) -> None:
    steps = lesson.steps(inputs.problem, "perfect")
    plot(times_figure(inputs.gpu, steps, colors()), key="roofline_times")
    three = sum(step.seconds(inputs.gpu) for step in steps[:3]) * 1e3
    fused = steps[3].seconds(inputs.gpu) * 1e3
    st.markdown(
        f"**Modelled on the {inputs.gpu.name}**, one head: three kernels at least **{theme.format_ms(three)}**, fused at least "
        f"**{theme.format_ms(fused)}**: {theme.format_ratio(three / fused)}. Each kernel takes the longer of its two bars; every re-read hits L2."
    )
    yours, slide = st.columns(2, gap="large")
    with yours.container(border=True, height="stretch"):
        st.markdown("**Your shape**, S and P against the products")
        _example(inputs.problem, inputs.gpu)
    with slide.container(border=True, height="stretch"):
        st.markdown(
            f"**The slides' example**: T = {SLIDE.q_len:,}, d = {SLIDE.head_dim}, float16, {GPUS[SLIDE_GPU].name}"
        )
        found = _example(SLIDE, GPUS[SLIDE_GPU])
        st.caption(
            f"For the second line the slides print 3.74 µs. Their own numbers give {_microseconds(found.memory_seconds)} µs; "
            f"{_microseconds(found.binary_memory_seconds)} µs comes out if tera is read as 2⁴⁰ there, but stays 10¹² in the first line. "
            "Makers count bandwidth in powers of ten. Either way the memory sets the pace."
        )


def _example(problem: AttentionProblem, gpu: Gpu) -> lesson.MemoryAgainstCompute:
    example = lesson.memory_against_compute(
        problem.q_len, problem.kv_len, problem.head_dim, problem.itemsize, gpu
    )
    size = rf"{problem.q_len}\cdot{problem.kv_len}"
    peak, bandwidth = theme.format_flops(gpu.fp16_flops), theme.format_bytes(gpu.hbm_bandwidth)
    for top, bottom, seconds, words in (
        (rf"4\cdot{size}\cdot{problem.head_dim}\text{{ FLOP}}", peak, example.compute_seconds, "computing"),
        (
            rf"4\cdot{size}\cdot{problem.itemsize}\text{{ B}}",
            bandwidth,
            example.memory_seconds,
            "moving S and P",
        ),
    ):
        st.markdown(
            rf"$\displaystyle\frac{{{top}}}{{\text{{{bottom}/s}}}}={_microseconds(seconds)}$ µs {words}"
        )
    return example


def _microseconds(seconds: float) -> str:
    return theme.significant(seconds * 1e6)


# --- tables -----------------------------------------------------------------------------------------------------------


def _tables_view(inputs: Inputs, store: runs.RunStore | None) -> None:
    for case, title in (
        ("perfect", "Every re-read hits the L2 cache"),
        ("none", "No re-read hits the L2 cache"),
    ):
        st.markdown(f"**{title}**, modelled")
        st.markdown(_table(lesson.steps(inputs.problem, case), inputs.gpu))
    problem, fused = inputs.problem, lesson.steps(inputs.problem, "none")[3]
    wanted = (problem, "flash2")
    with st.container():
        found = counted_runs(store, runs.backend(store), [wanted], "roofline_count").get(wanted)
    if found:
        counted = found.trace.total_bytes
        st.markdown(
            f"**Counted** by our fused kernel, {found.provenance}: **{counted:,} B**; without lse ({LSE_BYTES} bytes a row) "
            f"{counted - LSE_BYTES * problem.q_len:,} B, the table's {fused.bytes:,} B."
        )
    printed = lesson.printed_fused_elements(problem)
    best = problem.block_m * problem.block_n / (problem.block_m + problem.block_n)
    st.caption(
        "Tables of the MSRA SH Triton Study Group (2025), with two changes. They count a multiplication with its addition as one operation, and "
        "elements for bytes: in float16 the same ratio. And their fused row without a cache has Q and O cross the bus once for every key tile: "
        f"{printed:,} elements, {theme.significant(fused.flops / (printed * problem.itemsize))} FLOP/B. But a program keeps its query tile and its "
        f"part of O, so it is {fused.elements:,}. Their “best intensity” $T_QT_K/(T_Q+T_K)$ is {theme.significant(best)} for your tiles."
    )


def _table(steps: Sequence[lesson.Step], gpu: Gpu) -> str:
    rows = [
        "| | elements moved | bytes | work | FLOP/B | sets the pace | least time | against S |",
        "|:--|:--|--:|--:|--:|:--|--:|--:|",
    ]
    for step in steps:
        rows.append(
            f"| **{step.name}** | ${step.moved}$ | {theme.format_bytes(step.bytes)} | {theme.format_flops(step.flops)} "
            f"| **{theme.significant(step.intensity)}** | {step.bound_by(gpu)} | {theme.format_ms(step.seconds(gpu) * 1e3)} "
            f"| {theme.significant(step.seconds(gpu) / steps[0].seconds(gpu), 2)} |"
        )
    return "\n".join(rows)


# --- memory -----------------------------------------------------------------------------------------------------------


def _memory_view(inputs: Inputs, store: runs.RunStore | None) -> None:
    gpu = inputs.gpu
    plot(hierarchy_figure(list(GPUS.values()), gpu, colors()), key="roofline_hierarchy")
    st.markdown(
        f"**{gpu.name}**: the SRAM of all {gpu.sm_count} SMs is **{theme.format_ratio(gpu.sram_bandwidth / gpu.hbm_bandwidth)}** as fast as HBM, "
        f"and **{gpu.hbm_bytes / gpu.sram_bytes:,.0f} times** smaller."
    )
    rows = [
        "| | HBM | HBM bandwidth | L2 | SRAM, all SMs | a program's share | SRAM bandwidth | peak, float16 | ridge, FLOP/B |",
        "|:--|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, other in GPUS.items():
        mark = " (at hand)" if runs.backend(store) == "cuda" and name in store.client.device.name else ""
        rows.append(
            f"| **{other.name}**{mark} | {theme.format_bytes(other.hbm_bytes)} | {theme.format_bytes(other.hbm_bandwidth)}/s "
            f"| {theme.format_bytes(other.l2_bytes)} "
            f"| {other.sm_count} × {theme.format_kib(other.l1_bytes_per_sm)} = {theme.format_bytes(other.sram_bytes)} "
            f"| {theme.format_kib(other.shared_bytes_per_program)} | {theme.format_bytes(other.sram_bandwidth)}/s "
            f"| {theme.format_flops(other.fp16_flops)}/s | {theme.significant(other.balance)} |"
        )
    st.markdown("\n".join(rows))
    st.caption(
        f"Datasheets; nothing here is measured. SRAM bandwidth is derived: {SHARED_BYTES_PER_CLOCK} bytes a clock and SM, at the clock that the peak "
        f"implies ({theme.significant(gpu.clock_hz / 1e9)} GHz for the {gpu.name}). SRAM: L1 cache and shared memory together; registers, "
        f"{theme.format_kib(gpu.register_bytes_per_sm)} an SM, come on top. Source for the {gpu.name}: {gpu.source}."
    )


VIEWS: dict[str, Callable[[Inputs, runs.RunStore | None], None]] = {
    "Roofline": _roofline_view,
    "Time": _time_view,
    "Tables": _tables_view,
    "Memory": _memory_view,
}
