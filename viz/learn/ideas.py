"""Chapter 1: five ideas, how they need each other, and what breaks without one of them."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.algorithms.standard.traffic import standard_bytes
from kernels.device.gpus import GPUS, Gpu
from kernels.lessons.ideas import (
    NEEDS,
    Costs,
    chip_capacity,
    costs,
    falls_with,
    longest_whole_row,
    three_pass_bytes,
    whole_row_bytes,
    whole_rows_fit,
)
from kernels.problem import BLOCKS, AttentionProblem, InvalidProblem
from kernels.traffic.modelled import compulsory_bytes
from viz.learn.controls import choice, gpu_choice, number, switch
from viz.learn.figures.idea_map import Box, idea_map_html
from viz.shared.formats import count_tex, format_bytes, format_error, format_kib, format_number, significant
from viz.shared.layout import colors, explore_link
from viz.shared.problem_form import INTERPRETER_LENGTH

ALL = "all five"


def show() -> None:
    left_out = _left_out()
    picture, words = st.container(), st.container()
    numbers = st.container(horizontal=True, gap="small", key="figures")
    problem, gpu = _shape()
    if problem is None:
        return
    with_all, now = costs(problem, gpu), costs(problem, gpu, left_out)
    fallen = _fallen(problem, gpu, left_out)
    picture.html(idea_map_html(_boxes(problem, gpu, with_all, left_out, fallen), _because(problem), colors()))
    words.markdown(_story(problem, gpu, with_all, now)[left_out])
    _figures(numbers, problem, gpu, with_all, now)
    st.caption(
        "One head, float16, forward pass unless said otherwise. Bytes, sizes and FLOPs are **modelled**: "
        "requested bytes by kernels/traffic/modelled.py, which counts re-reads of K and V in full although "
        "the L2 cache may serve them; products of the backward pass by Dao et al. 2022, algorithm 4. The sum "
        "of the weights and the error are **computed** here in float64, on the inputs that the links below "
        "run."
    )
    with st.container(horizontal=True):
        explore_link("The five together: FlashAttention-2 on this shape", problem)
        explore_link("None of them: standard attention on this shape", problem, "standard")
        explore_link("lse at work: the backward pass", problem, "backward")


def _left_out() -> str | None:
    chosen = switch("Leave one out", [ALL, *(f"without {name}" for name in NEEDS)], "ideas_show")
    return None if chosen == ALL else chosen.removeprefix("without ")


def _shape() -> tuple[AttentionProblem | None, Gpu]:
    """The reader's shape (None if it is invalid, after an error on the page) and GPU."""
    columns = st.columns(5)
    with columns[0]:
        length = number("N, queries and keys", 16, INTERPRETER_LENGTH, 2048, 16, "ideas_n", "stretch")
    with columns[1]:
        head_dim = number("d, head_dim", 16, 256, 64, 16, "ideas_d", "stretch")
    with columns[2]:
        block_m = choice("BLOCK_M, queries per tile", BLOCKS, 128, "ideas_block_m", "stretch")
    with columns[3]:
        block_n = choice("BLOCK_N, keys per tile", BLOCKS, 64, "ideas_block_n", "stretch")
    with columns[4]:
        gpu = GPUS[gpu_choice("ideas_gpu", "stretch")]
    try:
        problem = AttentionProblem(
            q_len=length, kv_len=length, head_dim=head_dim, block_m=block_m, block_n=block_n
        )
    except InvalidProblem as error:
        st.error(str(error), icon=":material/error:")
        return None, gpu
    return problem, gpu


def _fallen(problem: AttentionProblem, gpu: Gpu, left_out: str | None) -> set[str]:
    """The ideas that do not work without `left_out` on this shape."""
    """The ideas that do not work without `left_out` on this shape."""
    if left_out is None or (left_out == "tiling" and whole_rows_fit(problem, gpu)):
        return set()
    return falls_with(left_out)


def _boxes(
    problem: AttentionProblem, gpu: Gpu, with_all: Costs, left_out: str | None, fallen: set[str]
) -> list[Box]:
    """What each idea does, with its number on this shape."""
    matrix = problem.q_len * problem.kv_len * problem.itemsize
    words = {
        "fusion": (
            "one kernel: S and P never reach HBM",
            f"saves {format_bytes(4 * matrix)} of traffic",
        ),
        "tiling": (
            f"{problem.block_m} × {problem.block_n} scores at a time",
            f"{format_kib(with_all.chip_bytes)} of {format_kib(chip_capacity(gpu))} on an SM",
        ),
        "online softmax": (
            "joins tiles by a running max and sum",
            f"{problem.kv_tiles:,} tiles, error {format_error(with_all.output_error)}",
        ),
        "recomputation": (
            "the backward pass computes P again",
            f"keeps {format_bytes(matrix)} of P out of HBM",
        ),
        "lse": (
            "one number per row: P = exp(S − lse)",
            f"{format_bytes(with_all.kept_bytes)} instead of {format_bytes(matrix)}",
        ),
    }
    state = {name: "out" if name == left_out else "falls" if name in fallen else "stands" for name in NEEDS}
    return [Box(name, *words[name], state[name]) for name in NEEDS]


def _because(problem: AttentionProblem) -> dict[tuple[str, str], str]:
    """(idea, the idea that it needs) -> why."""
    keys = f"a tile sees {min(problem.block_n, problem.kv_len):,} of {problem.kv_len:,} keys"
    return {
        ("fusion", "tiling"): "S must fit on the chip",
        ("tiling", "online softmax"): keys,
        ("fusion", "recomputation"): "the backward pass needs P",
        ("recomputation", "lse"): "with lse, any tile of P can be rebuilt alone",
        ("lse", "online softmax"): "lse = m + log l",
    }


def _story(problem: AttentionProblem, gpu: Gpu, with_all: Costs, now: Costs) -> dict[str | None, str]:
    """What happens if an idea is left out (None: none is), with formulas and their values."""
    n, size = problem.q_len, problem.itemsize
    fits = whole_rows_fit(problem, gpu)
    verdict = "still fits, so fusion stands" if fits else "does not fit, and fusion falls"
    product = f"$2 N^2 d$ = {_flops(2 * n * n * problem.head_dim)}"
    return {
        None: "**All five stand.** An arrow leads from an idea to the one that it needs: leave one out, and "
        "see what depends on it. No kernel can move less than "
        f"{format_bytes(compulsory_bytes(problem))}: Q, K and V in, O and lse out.",
        "fusion": "**Three kernels instead of one.** S and P, "
        f"$N^2 = {count_tex(n * n)}$ numbers each, are written to HBM and read back: "
        f"$4 N^2 \\cdot {size}$ B = {format_bytes(4 * n * n * size)}. The other four still work, but they "
        "save nothing.",
        "tiling": f"**{min(problem.block_m, n)} whole rows of scores at once**: "
        f"${problem.block_m} \\cdot {count_tex(n)} \\cdot 4$ B, together with the other tiles "
        f"{format_kib(whole_row_bytes(problem))}. An SM of the {gpu.name} has "
        f"{format_kib(chip_capacity(gpu))}: that {verdict}. "
        f"The limit is N = {longest_whole_row(problem, gpu):,}.",
        "online softmax": "**Each tile divides by its own sum**, so the weights of a row add up to "
        f"{format_number(now.weight_sum, 6)} instead of 1. An exact result without it needs three "
        f"passes over K: {format_bytes(three_pass_bytes(problem))} instead of "
        f"{format_bytes(with_all.forward_bytes)}.",
        "recomputation": "**P is kept for the backward pass**: "
        f"$N^2 \\cdot {size}$ B = {format_bytes(n * n * size)} per head, which again grows with $N^2$. "
        f"Computing P again costs one more product, {product}.",
        "lse": "**A tile of P needs the sum of its whole rows.** Without lse the backward pass must first "
        f"sum all rows again: one more product $Q K^\\top$, {product}, "
        f"to save {format_bytes(with_all.kept_bytes)}.",
    }


def _figures(
    container: DeltaGenerator, problem: AttentionProblem, gpu: Gpu, with_all: Costs, now: Costs
) -> None:
    """Five cards: the cost now, and what to compare it with; red if it is worse than with all five."""
    more_moved = now.forward_bytes > with_all.forward_bytes
    if now.forward_bytes != with_all.forward_bytes:
        against = f"all five {format_bytes(with_all.forward_bytes)}"
    else:
        against = f"standard {format_bytes(standard_bytes(problem))}"
    capacity, usual = chip_capacity(gpu), with_all.backward_flops
    room = f"room {format_kib(capacity)}"
    error = (format_number if now.output_error > 1e-3 else format_error)(now.output_error)
    weights = format_number(now.weight_sum, 6)
    all_of_p = f"all of P {format_bytes(problem.q_len * problem.kv_len * problem.itemsize)}"
    more_kept, more_flops = now.kept_bytes > with_all.kept_bytes, now.backward_flops > usual
    for label, value, comparison, worse in (
        ("Moved, forward", format_bytes(now.forward_bytes), against, more_moved),
        ("On the chip", format_kib(now.chip_bytes), room, now.chip_bytes > capacity),
        ("Weights of a row sum to", weights, f"error of O {error}", now.output_error > 1e-9),
        ("Kept for backward", format_bytes(now.kept_bytes), all_of_p, more_kept),
        ("Products, backward", _flops(now.backward_flops), f"all five {_flops(usual)}", more_flops),
    ):
        container.metric(
            label, value, comparison, delta_color="red" if worse else "off", delta_arrow="off", border=True
        )


def _flops(flops: float) -> str:
    return f"{significant(flops / 1e9)} GFLOP"
