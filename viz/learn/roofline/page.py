"""Chapter "Roofline": whether memory or arithmetic limits each step of attention, on any GPU and shape."""

from collections.abc import Sequence

import streamlit as st

from kernels.device.gpus import GPUS, Gpu
from kernels.problem import AttentionProblem
from viz.learn.controls import HEAD_DIMS, TILE_SIZES, gpu_choice, slider, switch
from viz.learn.counts import RULE, counted_runs
from viz.learn.predict import ask
from viz.learn.roofline import maths as lesson
from viz.learn.roofline.figures import roofline_figure
from viz.shared.layout import colors
from viz.shared.words import Words, links

WORDS = Words(__file__)
LENGTHS = (1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536)
START = AttentionProblem(q_len=1024, kv_len=1024, head_dim=64)


def show() -> None:
    WORDS.draw("start")
    with st.container(horizontal=True, gap="medium"):
        gpu = gpu_choice("roofline_gpu", 140)
        queries = slider("N, queries", LENGTHS, START.q_len, "roofline_q")
        keys = slider("M, keys", LENGTHS, START.kv_len, "roofline_k")
        d = slider("d, head_dim", HEAD_DIMS, START.head_dim, "roofline_d")
        block_m = slider("BLOCK_M", TILE_SIZES, START.block_m, "roofline_bm")
    problem = AttentionProblem(q_len=queries, kv_len=keys, head_dim=d, block_m=block_m)
    _predict(gpu)
    VIEWS[switch("View", VIEWS, "roofline_view")](problem, gpu)
    links(("Watch the three kernels", problem, "standard"), ("Watch the fused kernel", problem, "flash2"))


def _predict(gpu: Gpu) -> None:
    fused = lesson.steps(START.with_(q_len=1, kv_len=4096), "perfect")[-1]
    options = {"memory": "memory: it waits for K and V", "compute": "arithmetic: it computes without waiting"}
    right = options[fused.bound_by(gpu)]
    ask(WORDS, "question", f"roofline_decode_{gpu.name}", [*options.values()], right, gpu=gpu, fused=fused)


def _roofline_view(problem: AttentionProblem, gpu: Gpu) -> None:
    every = {case: lesson.steps(problem, case) for case in lesson.L2_CASES}
    wants_others = st.toggle("Show other operations too", key="roofline_others", bind="query-params")
    more = lesson.other_operations(problem) if wants_others else ()
    (*_, best), (_, softmax, _, worst) = every.values()
    WORDS.draw(
        "Roofline",
        roof=roofline_figure(gpu, every, [other for other in GPUS.values() if other != gpu], colors(), more),
        rule=RULE,
        gpu=gpu,
        best=best,
        best_bound=best.bound_by(gpu),
        worst=worst,
        worst_bound=worst.bound_by(gpu),
        softmax=softmax,
        others=_table(more, gpu) if more else "",
    )


def _time_view(problem: AttentionProblem, gpu: Gpu) -> None:
    perfect, none = (lesson.steps(problem, case) for case in lesson.L2_CASES)
    squares = lesson.memory_against_compute(problem)
    (*three, fused), (*three_requested, fused_requested) = (
        [step.seconds(gpu) for step in steps] for steps in (perfect, none)
    )

    def counting() -> None:
        for run in counted_runs([(problem, "flash2")], "roofline_count").values():
            WORDS.draw("counted", run=run, fused=none[-1])

    WORDS.draw(
        "Time",
        perfect=_table(perfect, gpu),
        none=_table(none, gpu),
        problem=problem,
        gpu=gpu,
        three=sum(three),
        fused=fused,
        ratio=sum(three) / fused,
        three_requested=sum(three_requested),
        fused_requested=fused_requested,
        computing=squares.compute_seconds(gpu),
        moving=squares.memory_seconds(gpu),
        counting=counting,
    )


def _table(steps: Sequence[lesson.Step], gpu: Gpu) -> str:
    """What each step moves and computes, what limits it, and its time against the first."""
    first = steps[0].seconds(gpu)
    return WORDS.rows(
        "steps",
        (
            {
                "step": step,
                "lse": " and lse" if step.lse_bytes else "",
                "bound": step.bound_by(gpu),
                "seconds": step.seconds(gpu),
                "ratio": step.seconds(gpu) / first,
            }
            for step in steps
        ),
    )


VIEWS = {"Roofline": _roofline_view, "Time": _time_view}
