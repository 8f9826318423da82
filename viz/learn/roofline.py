"""Chapter "Roofline": whether memory or arithmetic limits each step of attention, on any GPU and shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import streamlit as st

from kernels.device.gpus import GPUS, Gpu
from kernels.lessons import roofline as lesson
from kernels.problem import AttentionProblem
from viz.learn.controls import HEAD_DIMS, TILE_SIZES, gpu_choice, slider, switch
from viz.learn.counting_rule import RULE
from viz.learn.counts import counted_runs
from viz.learn.figures.roofline import roofline_figure, times_figure
from viz.learn.gpu_here import gpu_here_words
from viz.learn.predict import choose
from viz.shared import runs
from viz.shared.formats import format_bytes, format_flops, format_ms, format_ratio, significant
from viz.shared.glossary import say
from viz.shared.layout import colors, explore_link, plot

LENGTHS = (1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536)
START = AttentionProblem(q_len=1024, kv_len=1024, head_dim=64)


@dataclass(frozen=True)
class RooflineInputs:
    """What the reader chose: one head, float16, no mask, and a GPU of the list."""

    problem: AttentionProblem
    gpu: Gpu


def show() -> None:
    """Draw the chapter."""
    store = runs.run_store()
    say(
        "A [[kernel]] does two things at once: it moves bytes, at most at the [[bandwidth]] of [[HBM]], and "
        "it computes, at most at the peak of the [[GPU]], in [[TFLOP/s]]. Whichever takes longer sets its "
        "time. To see which, divide its operations by its [[traffic]]. This is its [[arithmetic intensity]], "
        "in [[FLOP]] per byte. If it is low, the kernel waits for memory, and more computing power does not "
        "help. Standard attention is three kernels. **Fused** means that one kernel does it all, as in "
        "FlashAttention."
    )
    inputs = _inputs(store)
    _predict(inputs)
    VIEWS[switch("View", VIEWS, "roofline_view")](inputs, store)
    with st.container(horizontal=True):
        explore_link("Watch the three kernels", inputs.problem, "standard")
        explore_link("Watch the fused kernel", inputs.problem, "flash2")


def _predict(inputs: RooflineInputs) -> None:
    """What limits one query against many keys."""
    gpu = inputs.gpu
    fused = lesson.steps(START.with_(q_len=1, kv_len=4096), "perfect").fused
    options = {"memory": "memory: it waits for K and V", "compute": "arithmetic: it computes without waiting"}
    choose(
        f"roofline_decode_{gpu.name}",
        "A model writes its next word: one query against 4,096 keys, head_dim 64, all in one fused kernel. "
        f"What limits it on the {gpu.name}?",
        list(options.values()),
        options[fused.bound_by(gpu)],
        f"Each key is used for one query only: {significant(fused.intensity)} FLOP per byte, and the "
        f"{gpu.name} can do {significant(gpu.balance)} in the time of one byte. Set N = 1 and M = 4096 to "
        f"see it.",
    )


def _inputs(store: runs.RunStore | None) -> RooflineInputs:
    with st.container(horizontal=True, gap="medium"):
        gpu = GPUS[gpu_choice("roofline_gpu", 140, words=gpu_here_words(store))]
        queries = slider("N, queries", LENGTHS, START.q_len, "roofline_q")
        keys = slider("M, keys", LENGTHS, START.kv_len, "roofline_k")
        d = slider("d, head_dim", HEAD_DIMS, START.head_dim, "roofline_d")
        block_m = slider("BLOCK_M", TILE_SIZES, START.block_m, "roofline_bm")
    problem = AttentionProblem(q_len=queries, kv_len=keys, head_dim=d, block_m=block_m)
    return RooflineInputs(problem, gpu)


def _roofline_view(inputs: RooflineInputs, store: runs.RunStore | None) -> None:
    """The steps under the roof of the GPU."""
    gpu = inputs.gpu
    steps = {case: lesson.steps(inputs.problem, case) for case in lesson.L2_CASES}
    say(
        "Each dot is a kernel: the further right, the more arithmetic it does with each byte. The thick "
        "line, the **roof**, is the best that the GPU can do. On its slope memory is the limit, on its flat "
        "part arithmetic."
    )
    others = [other for other in GPUS.values() if other != gpu]
    more = lesson.other_operations(inputs.problem) if _wants_others() else ()
    plot(roofline_figure(gpu, steps, others, colors(), more), key="roofline_roof")
    say(
        f"{RULE} **Modelled**: bytes and FLOPs of each step by formula, under the roof that the GPU's "
        "datasheet gives (roofline: Williams, Waterman and Patterson 2009). Softmax counts 3 operations per "
        "element at the peak of the tensor cores, like the products; its real peak is lower.",
        small=True,
    )
    best, worst = steps["perfect"].fused, steps["none"].fused
    peak, bandwidth = format_flops(gpu.fp16_flops), format_bytes(gpu.hbm_bandwidth)
    st.markdown(
        rf"**Ridge of the {gpu.name}**: $\frac{{\text{{{peak}/s}}}}{{\text{{{bandwidth}/s}}}}"
        rf"={significant(gpu.balance)}$ FLOP/B. That is where the roof bends: a kernel left of it is "
        r"limited by memory, a kernel right of it by arithmetic."
    )
    st.markdown(
        f"**Fused**: {significant(best.intensity)} FLOP/B for the least bytes, if K and V are read again "
        f"from L2 (limited by {best.bound_by(gpu)}), and {significant(worst.intensity)} for the requested "
        f"bytes, if they are read again from HBM (limited by {worst.bound_by(gpu)}). **Softmax** "
        f"alone: {significant(steps['perfect'].softmax.intensity)} for every shape."
    )
    if more:
        st.markdown(_others_table(more, gpu))


def _wants_others() -> bool:
    return st.toggle("Show other operations too", key="roofline_others", bind="query-params")


def _others_table(operations: Sequence[lesson.Step], gpu: Gpu) -> str:
    """Operations on the same N queries of D features, and what limits each."""
    rows = ["| beside attention | elements moved | work | FLOP/B | limited by |", "|:--|--:|--:|--:|:--|"]
    rows += [
        f"| **{step.name}** | ${step.moved}$ | {format_flops(step.flops)} | "
        f"**{significant(step.intensity)}** | {step.bound_by(gpu)} |"
        for step in operations
    ]
    return "\n".join(rows)


def _time_view(inputs: RooflineInputs, store: runs.RunStore | None) -> None:
    """Least times of the steps, and the printed example."""
    steps = lesson.steps(inputs.problem, "perfect")
    plot(times_figure(inputs.gpu, steps, colors()), key="roofline_times")
    three = sum(step.seconds(inputs.gpu) for step in (steps.scores, steps.softmax, steps.output)) * 1e3
    fused = steps.fused.seconds(inputs.gpu) * 1e3
    without_l2 = lesson.steps(inputs.problem, "none").fused.seconds(inputs.gpu) * 1e3
    st.markdown(
        f"**Modelled on the {inputs.gpu.name}**, one head, for the least bytes: every tile that is read "
        f"again comes from the L2 cache. Three kernels need at least **{format_ms(three)}**, the fused one "
        f"at least **{format_ms(fused)}**: {format_ratio(three / fused)}. The longer of the two bars is "
        "the time of a kernel. If none comes from L2, and the requested bytes all come from HBM, as the "
        f"times of the Traffic chapter assume, the fused kernel needs at least {format_ms(without_l2)}."
    )
    with st.container(border=True):
        st.markdown("**Why**: moving S and P alone, against computing the products")
        say_memory_against_compute(inputs.problem, inputs.gpu)


def say_memory_against_compute(problem: AttentionProblem, gpu: Gpu) -> None:
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
            rf"$\displaystyle\frac{{{top}}}{{\text{{{bottom}/s}}}}={microseconds(seconds)}$ µs {words}"
        )


def microseconds(seconds: float) -> str:
    """Three significant digits, without the unit."""
    return significant(seconds * 1e6)


def _tables_view(inputs: RooflineInputs, store: runs.RunStore | None) -> None:
    """The two tables of steps, and the fused kernel's own count."""
    for case, title in (
        ("perfect", "At least: every re-read hits the L2 cache"),
        ("none", "Requested: no re-read hits the L2 cache"),
    ):
        st.markdown(f"**{title}** (modelled)")
        st.markdown(_table(lesson.steps(inputs.problem, case), inputs.gpu))
    st.caption(
        f"N queries, M keys, {inputs.problem.q_tiles} query tiles ($t_q$). A program keeps its query tile, "
        "so Q is read once; K and V are read once for each query tile."
    )
    problem, fused = inputs.problem, lesson.steps(inputs.problem, "none").fused
    wanted = (problem, "flash2")
    with st.container():
        run = counted_runs(store, runs.backend(store), [wanted], "roofline_count").get(wanted)
    if run:
        counted = run.trace.total_bytes
        st.markdown(
            f"**Counted** by our fused kernel, {run.provenance}: **{counted:,} B** requested. The table "
            f"has {fused.bytes:,} B."
        )
    st.caption(
        "Steps and bytes after MSRA SH Triton Study Group 2025. A multiplication and its addition count as "
        "two operations."
    )


def _table(steps: Sequence[lesson.Step], gpu: Gpu) -> str:
    rows = [
        "| | elements moved | bytes | work | FLOP/B | limited by | least time | against S |",
        "|:--|:--|--:|--:|--:|:--|--:|--:|",
    ]
    for step in steps:
        seconds = step.seconds(gpu)
        rows.append(
            f"| **{step.name}** | ${step.moved}$ {'and lse ' * bool(step.lse_bytes)}"
            f"| {format_bytes(step.bytes)} | {format_flops(step.flops)} | "
            f"**{significant(step.intensity)}** | {step.bound_by(gpu)} | "
            f"{format_ms(seconds * 1e3)} "
            f"| {significant(seconds / steps[0].seconds(gpu), 2)} |"
        )
    return "\n".join(rows)


VIEWS: dict[str, Callable[[RooflineInputs, runs.RunStore | None], None]] = {
    "Roofline": _roofline_view,
    "Time": _time_view,
    "Tables": _tables_view,
}
