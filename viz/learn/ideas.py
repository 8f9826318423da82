"""Chapter 1: five ideas, how they need each other, and what breaks without one of them."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.algorithms.standard.traffic import standard_bytes
from kernels.device.gpus import DEFAULT_GPU, GPUS, Gpu
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
from viz.learn.figures.idea_map import Box, idea_map_html
from viz.shared import theme
from viz.shared.layout import colors, explore_link
from viz.shared.problem_form import INTERPRETER_LENGTH

NONE = "all five"


def show() -> None:
    left_out = _left_out()
    picture, words, numbers = (
        st.container(),
        st.container(),
        st.container(horizontal=True, gap="small", key="figures"),
    )
    problem, gpu = _shape()
    if problem is None:
        return
    with_all, now = costs(problem, gpu), costs(problem, gpu, left_out)
    fallen = _fallen(problem, gpu, left_out)
    picture.html(idea_map_html(_boxes(problem, gpu, with_all, left_out, fallen), _because(problem), colors()))
    words.markdown(_story(problem, gpu, with_all, now)[left_out])
    _figures(numbers, problem, gpu, with_all, now)
    st.caption(
        "One head, float16, forward pass unless said otherwise. Bytes, sizes and FLOPs are **modelled**: requested bytes by kernels/traffic/modelled.py, "
        "in which re-reads of K and V count in full though the L2 cache may serve them; products of the backward pass after Dao et al. 2022, "
        "algorithm 4. Weight sum and error are **computed** here in float64, on the inputs that the links below run."
    )
    with st.container(horizontal=True):
        explore_link("The five together: FlashAttention-2 on this shape", problem)
        explore_link("None of them: standard attention on this shape", problem, "standard")
        explore_link("lse at work: the backward pass", problem, "backward")


def _left_out() -> str | None:
    chosen = st.segmented_control(
        "Leave one out",
        [NONE, *(f"without {name}" for name in NEEDS)],
        default=NONE,
        required=True,
        key="ideas_show",
        bind="query-params",
        label_visibility="collapsed",
    )
    return None if chosen == NONE else chosen.removeprefix("without ")


def _shape() -> tuple[AttentionProblem | None, Gpu]:
    """The reader's shape: the widgets, and the problem if they make one."""
    places = st.columns(5)
    length = places[0].number_input(
        "N, queries and keys", 16, INTERPRETER_LENGTH, 2048, 16, key="ideas_n", bind="query-params"
    )
    head_dim = places[1].number_input("d, head_dim", 16, 256, 64, 16, key="ideas_d", bind="query-params")
    block_m = places[2].selectbox(
        "BLOCK_M, queries a tile", BLOCKS, BLOCKS.index(128), key="ideas_block_m", bind="query-params"
    )
    block_n = places[3].selectbox(
        "BLOCK_N, keys a tile", BLOCKS, BLOCKS.index(64), key="ideas_block_n", bind="query-params"
    )
    gpu = places[4].selectbox(
        "GPU", list(GPUS), list(GPUS).index(DEFAULT_GPU), key="ideas_gpu", bind="query-params"
    )
    try:
        return AttentionProblem(
            q_len=length, kv_len=length, head_dim=head_dim, block_m=block_m, block_n=block_n
        ), GPUS[gpu]
    except InvalidProblem as error:
        st.error(str(error), icon=":material/error:")
        return None, GPUS[gpu]


def _fallen(problem: AttentionProblem, gpu: Gpu, left_out: str | None) -> set[str]:
    if left_out is None or (left_out == "tiling" and whole_rows_fit(problem, gpu)):
        return set()
    return falls_with(left_out)


def _boxes(
    problem: AttentionProblem, gpu: Gpu, with_all: Costs, left_out: str | None, fallen: set[str]
) -> list[Box]:
    matrix = problem.q_len * problem.kv_len * problem.itemsize
    said = {
        "fusion": (
            "one kernel: S and P never reach HBM",
            f"saves {theme.format_bytes(4 * matrix)} of traffic",
        ),
        "tiling": (
            f"{problem.block_m} × {problem.block_n} scores at a time",
            f"{theme.format_kib(with_all.chip_bytes)} of {theme.format_kib(chip_capacity(gpu))} on an SM",
        ),
        "online softmax": (
            "joins tiles by a running max and sum",
            f"{problem.kv_tiles:,} tiles, error {theme.format_error(with_all.output_error)}",
        ),
        "recomputation": (
            "the backward pass makes P again",
            f"keeps {theme.format_bytes(matrix)} of P out of HBM",
        ),
        "lse": (
            "one number a row: P = exp(S − lse)",
            f"{theme.format_bytes(with_all.kept_bytes)} instead of {theme.format_bytes(matrix)}",
        ),
    }
    state = {name: "out" if name == left_out else "falls" if name in fallen else "stands" for name in NEEDS}
    return [Box(name, *said[name], state[name]) for name in NEEDS]


def _because(problem: AttentionProblem) -> dict[tuple[str, str], str]:
    return {
        ("fusion", "tiling"): "S must fit on the chip",
        (
            "tiling",
            "online softmax",
        ): f"a tile sees {min(problem.block_n, problem.kv_len):,} of {problem.kv_len:,} keys",
        ("fusion", "recomputation"): "the backward pass needs P",
        ("recomputation", "lse"): "one tile of P, at once, without its row",
        ("lse", "online softmax"): "lse = m + log l",
    }


def _story(problem: AttentionProblem, gpu: Gpu, with_all: Costs, now: Costs) -> dict[str | None, str]:
    """What happens without an idea, in two sentences with their formula and its value."""
    n, size, bytes_of = problem.q_len, problem.itemsize, theme.format_bytes
    fits = (
        "still fits, so fusion stands" if whole_rows_fit(problem, gpu) else "does not fit, and fusion falls"
    )
    product = f"$2 N^2 d$ = {_flops(2 * n * n * problem.head_dim)}"
    return {
        None: "**All five stand.** An arrow leads from an idea to the one it needs: take one away, and see what it held up. "
        f"No kernel can move less than {bytes_of(compulsory_bytes(problem))}: Q, K and V in, O and lse out.",
        "fusion": f"**Three kernels instead of one.** S and P, $N^2 = {theme.count_tex(n * n)}$ numbers each, are written to HBM and read back: "
        f"$4 N^2 \\cdot {size}$ B = {bytes_of(4 * n * n * size)}. The other four still work, but have nothing to save.",
        "tiling": f"**{min(problem.block_m, n)} whole rows of scores at once**: ${problem.block_m} \\cdot {theme.count_tex(n)} \\cdot 4$ B, with the "
        f"tiles beside them {theme.format_kib(whole_row_bytes(problem))}. An SM of the {gpu.name} has {theme.format_kib(chip_capacity(gpu))}: "
        f"that {fits}. "
        f"The limit is N = {longest_whole_row(problem, gpu):,}.",
        "online softmax": f"**Each tile divides by its own sum**, so the weights of a row add up to "
        f"{theme.format_number(now.weight_sum, 6)} instead of 1. "
        f"To be right without it takes three passes over K: {bytes_of(three_pass_bytes(problem))} instead of {bytes_of(with_all.forward_bytes)}.",
        "recomputation": f"**P is kept for the backward pass**: $N^2 \\cdot {size}$ B = {bytes_of(n * n * size)} a head, growing with $N^2$ again. "
        f"To make it again costs one product more, {product}.",
        "lse": "**A tile of P needs the sum of its whole rows.** Without lse the backward pass must sum all rows again first: one product "
        f"$Q K^\\top$ more, {product}, to save {bytes_of(with_all.kept_bytes)}.",
    }


def _figures(place: DeltaGenerator, problem: AttentionProblem, gpu: Gpu, with_all: Costs, now: Costs) -> None:
    """Five cards: the cost now, and what to hold it against."""
    changed = now.forward_bytes != with_all.forward_bytes
    against = (
        f"all five {theme.format_bytes(with_all.forward_bytes)}"
        if changed
        else f"standard {theme.format_bytes(standard_bytes(problem))}"
    )
    capacity, usual = chip_capacity(gpu), with_all.backward_flops
    error = (theme.format_number if now.output_error > 1e-3 else theme.format_error)(now.output_error)
    matrix = theme.format_bytes(problem.q_len * problem.kv_len * problem.itemsize)
    cards = (
        ("Moved, forward", theme.format_bytes(now.forward_bytes), against, now.forward_bytes > with_all.forward_bytes),
        ("On the chip", theme.format_kib(now.chip_bytes), f"room {theme.format_kib(capacity)}", now.chip_bytes > capacity),
        ("Weights of a row sum to", theme.format_number(now.weight_sum, 6), f"error of O {error}", now.output_error > 1e-9),
        ("Kept for backward", theme.format_bytes(now.kept_bytes), f"all of P {matrix}", now.kept_bytes > with_all.kept_bytes),
        ("Products, backward", _flops(now.backward_flops), f"all five {_flops(usual)}", now.backward_flops > usual),
    )  # fmt: skip
    for label, value, comparison, worse in cards:
        place.metric(
            label, value, comparison, delta_color="red" if worse else "off", delta_arrow="off", border=True
        )


def _flops(flops: float) -> str:
    return f"{theme.significant(flops / 1e9)} GFLOP"
