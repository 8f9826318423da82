"""Chapter "Five ideas": the summary: how they need each other, and what breaks without one of them."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.algorithms.standard.traffic import standard_requested
from kernels.device.gpus import GPUS, Gpu
from kernels.lessons.ideas import NEEDS, ROWS, Costs, chip_capacity, costs, falls_with
from kernels.problem import BLOCKS, AttentionProblem, InvalidProblem
from viz.learn.controls import choice, gpu_choice, number, switch
from viz.learn.counting_rule import RULE, standard_words
from viz.learn.figures.idea_map import idea_map_html
from viz.learn.ideas_words import because, boxes, flops_words, room_words, story
from viz.learn.predict import choose
from viz.learn.what_stays import what_stays
from viz.shared.formats import format_bytes, format_error, format_kib, format_number
from viz.shared.glossary import say
from viz.shared.layout import colors, explore_link

ALL = "all five"
LONGEST = 16384


def show() -> None:
    say(
        "Everything so far rests on five ideas. **Fusion**: one [[kernel]] instead of three, so S and P "
        "never reach [[HBM]]. **Tiling**: a [[tile]] of S at a time, since S does not fit [[on the chip]]. "
        "**[[online softmax|Online softmax]]**: joins the tiles exactly. **Recomputation**: the [[backward]] "
        "pass computes P again. **[[lse]]**: the one number per row that makes this possible."
    )
    asked = st.container()
    left_out = _left_out()
    picture, words = st.container(), st.container()
    numbers = st.container(horizontal=True, gap="small", key="figures")
    problem, gpu = _shape()
    if problem is None:
        return
    with asked:
        _predict(problem, gpu)
    with_all, now = costs(problem, gpu), costs(problem, gpu, left_out)
    picture.html(idea_map_html(boxes(problem, gpu, with_all, left_out), because(problem, gpu), colors()))
    words.markdown(story(problem, gpu, with_all, now, left_out))
    _figures(numbers, problem, gpu, with_all, now)
    say(
        "One head, float16. If an idea is left out, the cards say what exact attention then costs; if it "
        "needs three kernels again, on the chip counts that one of the two products that keeps more. Only "
        "the third card shows something else: how wrong a kernel is that goes on in tiles without that "
        f"idea. {RULE} Standard attention in these tiles: {standard_words(problem)}. Bytes, sizes and FLOPs "
        "are **modelled**; products of the backward pass by Dao et al. 2022, algorithm 4. Sum and error are "
        f"**measured** in float64 on the first {ROWS} rows of the inputs that the links below run.",
        small=True,
    )
    with st.container(horizontal=True):
        explore_link("The five together: FlashAttention-2 on this shape", problem)
        explore_link("None of them: standard attention on this shape", problem, "standard")
        explore_link("lse at work: the backward pass", problem, "backward")
    what_stays(problem, gpu)


def _predict(problem: AttentionProblem, gpu: Gpu) -> None:
    """How many ideas fall with the online softmax, on the reader's shape."""
    fallen = falls_with("online softmax", problem, gpu)
    names = f": {', '.join(name for name in NEEDS if name in fallen)}" if fallen else ""
    choose(
        f"ideas_falls_{len(fallen)}",
        "Take one idea away, the [[online softmax]], and still read each key only once. How many of the "
        "other four no longer work?",
        ("0", "1", "2", "3", "4"),
        str(len(fallen)),
        f"On this shape {len(fallen)} fall{names}. Choose “without online softmax” to see why.",
    )


def _left_out() -> str | None:
    chosen = switch("Leave one out", [ALL, *(f"without {name}" for name in NEEDS)], "ideas_show")
    return None if chosen == ALL else chosen.removeprefix("without ")


def _shape() -> tuple[AttentionProblem | None, Gpu]:
    """The reader's shape (None if it is invalid, after an error on the page) and GPU."""
    columns = st.columns(5)
    with columns[0]:
        length = number("N, queries and keys", 16, LONGEST, 2048, 16, "ideas_n", "stretch")
    with columns[1]:
        head_dim = number("d, head_dim", 16, 256, 64, 16, "ideas_d", "stretch")
    with columns[2]:
        block_m = choice("BLOCK_M", BLOCKS, 128, "ideas_block_m", "stretch")
    with columns[3]:
        block_n = choice("BLOCK_N", BLOCKS, 64, "ideas_block_n", "stretch")
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


def _figures(
    container: DeltaGenerator, problem: AttentionProblem, gpu: Gpu, with_all: Costs, now: Costs
) -> None:
    """Five cards: the cost now, and what to compare it with; red if it is worse than with all five."""
    more_moved = now.forward_bytes > with_all.forward_bytes
    if now.forward_bytes != with_all.forward_bytes:
        against = f"all five {format_bytes(with_all.forward_bytes)}"
    else:
        against = f"standard {format_bytes(standard_requested(problem))}"
    usual = with_all.backward_flops
    too_much = now.chip_bytes > chip_capacity(gpu)
    room = f"a program can have {room_words(gpu)}"
    error = (format_number if now.output_error > 1e-3 else format_error)(now.output_error)
    weights = format_number(now.weight_sum, 6)
    all_of_p = f"all of P {format_bytes(problem.q_len * problem.kv_len * problem.itemsize)}"
    more_kept, more_flops = now.kept_bytes > with_all.kept_bytes, now.backward_flops > usual
    for label, value, comparison, worse in (
        ("Requested, forward", format_bytes(now.forward_bytes), against, more_moved),
        ("Needed on the chip", format_kib(now.chip_bytes), room, too_much),
        ("Weights of a row sum to", weights, f"error of O {error}", now.output_error > 1e-9),
        ("Kept for backward", format_bytes(now.kept_bytes), all_of_p, more_kept),
        ("Products, backward", flops_words(now.backward_flops), f"all five {flops_words(usual)}", more_flops),
    ):
        container.metric(
            label, value, comparison, delta_color="red" if worse else "off", delta_arrow="off", border=True
        )
