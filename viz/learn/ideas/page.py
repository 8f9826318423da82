"""Chapter "Five ideas": the summary: how they need each other, and what breaks without one of them."""

from __future__ import annotations

import functools

import streamlit as st

from kernels.algorithms.flash2.entry import FORWARD, requested_bytes
from kernels.algorithms.standard.traffic import matrix_bytes, standard_bytes, standard_requested
from kernels.device.gpus import GPUS, Gpu
from kernels.problem import BLOCKS, AttentionProblem, InvalidProblem
from kernels.traffic.modelled import LSE_BYTES, compulsory_bytes, forward_flops
from viz.learn.controls import choice, gpu_choice, number, switch
from viz.learn.counts import RULE
from viz.learn.ideas import maths as lesson
from viz.learn.ideas.figures import Box, idea_map_html
from viz.learn.ideas.maths import NEEDS, ROWS, Costs, falls_with, idle_without
from viz.learn.predict import ask
from viz.learn.words import Words, table
from viz.shared.formats import (
    count_tex,
    format_bytes,
    format_count,
    format_error,
    format_flops,
    format_kib,
    format_number,
    significant,
)
from viz.shared.glossary import say

WORDS = Words(__file__)
ALL = "all five"
LONGEST = 16384
SIZES = (32, 64, 128, 256)
"""Keys, groups of keys or features that an approximation looks at."""


def show() -> None:
    """Draw the chapter."""
    WORDS.draw("start")
    asked = st.container()
    shown = switch("Leave one out", [ALL, *(f"without {name}" for name in NEEDS)], "ideas_show")
    left_out = None if shown == ALL else shown.removeprefix("without ")
    picture = st.container()
    cards = st.container(horizontal=True, gap="small", key="figures")
    problem, gpu = _shape()
    if problem is None:
        return
    with asked:
        _predict(problem, gpu)
    every, now = lesson.costs(problem, gpu), lesson.costs(problem, gpu, left_out)
    numbers = _numbers(problem, gpu, every, now)
    with picture:
        st.html(idea_map_html(_boxes(problem, gpu, every, left_out), _reasons(problem, gpu)))
        WORDS.draw(left_out or ALL, **numbers)
    for label, value, comparison, worse in _cards(problem, gpu, every, now):
        cards.metric(
            label, value, comparison, delta_color="red" if worse else "off", delta_arrow="off", border=True
        )
    WORDS.draw("what stays", **numbers)


def _shape() -> tuple[AttentionProblem | None, Gpu]:
    """The reader's shape (None if it is invalid, after an error on the page) and GPU."""
    with st.container(horizontal=True):
        length = number("N, queries and keys", 16, LONGEST, 2048, 16, "ideas_n", 200)
        head_dim = number("d, head_dim", 16, 256, 64, 16, "ideas_d", 160)
        block_m = choice("BLOCK_M", BLOCKS, 128, "ideas_block_m", 140)
        block_n = choice("BLOCK_N", BLOCKS, 64, "ideas_block_n", 140)
        gpu = GPUS[gpu_choice("ideas_gpu", 140)]
    try:
        problem = AttentionProblem(
            q_len=length, kv_len=length, head_dim=head_dim, block_m=block_m, block_n=block_n
        )
    except InvalidProblem as error:
        st.error(str(error), icon=":material/error:")
        return None, gpu
    return problem, gpu


def _predict(problem: AttentionProblem, gpu: Gpu) -> None:
    """How many ideas fall with the online softmax, on the reader's shape."""
    fallen = falls_with("online softmax", problem, gpu)
    names = f" ({', '.join(name for name in NEEDS if name in fallen)})" if fallen else ""
    count = str(len(fallen))
    ask(WORDS, "question", f"ideas_falls_{count}", [*"01234"], count, count=count, names=names)


def _numbers(problem: AttentionProblem, gpu: Gpu, every: Costs, now: Costs) -> dict:
    """What the words of the chapter name, on the reader's shape."""
    square, matrix = problem.q_len * problem.kv_len, matrix_bytes(problem)
    moving, computing = 2 * matrix / gpu.hbm_bandwidth, 2 * square * problem.head_dim / gpu.fp16_flops
    return {
        "problem": problem,
        "gpu": gpu,
        "every": every,
        "now": now,
        "rule": RULE,
        "rows": ROWS,
        "square": square,
        "square_tex": count_tex(square),
        "length_tex": count_tex(problem.q_len),
        "matrix": matrix,
        "both": 2 * matrix,
        "squares": 4 * matrix,
        "lse": problem.q_len * LSE_BYTES,
        "exponentials": square + problem.q_len * problem.kv_tiles,
        "flops": forward_flops(problem),
        "product": _gflop(2 * square * problem.head_dim),
        "requested": requested_bytes(problem),
        "standard": standard_requested(problem),
        "least_standard": standard_bytes(problem),
        "least": compulsory_bytes(problem),
        "three_pass": lesson.three_pass_bytes(problem),
        "whole_rows": lesson.whole_row_bytes(problem),
        "longest": lesson.longest_whole_row(problem, gpu),
        "room": _room(gpu),
        "capacity": lesson.chip_capacity(gpu),
        "moving": 1e3 * moving,
        "computing": 1e3 * computing,
        "ratio": moving / computing,
        "approximations": functools.partial(_approximations, problem),
        "links": [
            ("The five together: FlashAttention-2 on this shape", problem),
            ("None of them: standard attention on this shape", problem, "standard"),
            ("lse at work: the backward pass", problem, "backward"),
        ],
    }


def _cards(
    problem: AttentionProblem, gpu: Gpu, every: Costs, now: Costs
) -> tuple[tuple[str, str, str, bool], ...]:
    """Label, the cost now, what to compare it with, and whether it is worse than with all five."""
    more = now.forward_bytes > every.forward_bytes
    compared = ("all five", every.forward_bytes) if more else ("standard", standard_requested(problem))
    requested, than = format_bytes(now.forward_bytes), f"{compared[0]} {format_bytes(compared[1])}"
    chip, room = format_kib(now.chip_bytes), f"a program can have {_room(gpu)}"
    error = (format_number if now.output_error > 1e-3 else format_error)(now.output_error)
    weights, kept = format_number(now.weight_sum, 6), format_bytes(now.kept_bytes)
    matrix, flops = f"all of P {format_bytes(matrix_bytes(problem))}", _gflop(now.backward_flops)
    return (
        ("Requested, forward", requested, than, more),
        ("Needed on the chip", chip, room, now.chip_bytes > lesson.chip_capacity(gpu)),
        ("Weights of a row sum to", weights, f"error of O {error}", now.output_error > 1e-9),
        ("Kept for backward", kept, matrix, now.kept_bytes > every.kept_bytes),
        (
            *("Products, backward", flops, f"all five {_gflop(every.backward_flops)}"),
            now.backward_flops > every.backward_flops,
        ),
    )


def _gflop(flops: float) -> str:
    return f"{significant(flops / 1e9)} GFLOP"


def _room(gpu: Gpu) -> str:
    """What one program can have, by memory."""
    return ", ".join(f"{format_kib(limit)} {memory}" for memory, limit in gpu.program_limits.items())


def _boxes(problem: AttentionProblem, gpu: Gpu, every: Costs, left_out: str | None) -> list[Box]:
    """What each idea does, with its number on this shape, and what became of it without `left_out`."""
    matrix = matrix_bytes(problem)
    on_chip = (
        f"{format_kib(FORWARD.chip_bytes(problem, memory))} of {format_kib(limit)} {memory}"
        for memory, limit in gpu.program_limits.items()
    )
    tiles, error = format_count(problem.kv_tiles, "tile"), format_error(every.output_error)
    lse = format_bytes(problem.q_len * LSE_BYTES)
    words = {
        "fusion": (
            "one kernel: S and P never reach HBM",
            f"S and P, each in and out: {format_bytes(4 * matrix)} less to move",
        ),
        "tiling": (f"{problem.block_m} × {problem.block_n} scores at a time", ", ".join(on_chip)),
        "online softmax": ("joins tiles by a running max and sum", f"{tiles} per row, error {error}"),
        "recomputation": (
            "the backward pass computes P again",
            f"{format_bytes(matrix)} of P need not be kept",
        ),
        "lse": ("one number per row: P = exp(S − lse)", f"{lse} kept instead of {format_bytes(matrix)}"),
    }
    state = dict.fromkeys(NEEDS, "stands")
    state |= dict.fromkeys(idle_without(left_out, problem, gpu), "idle")
    state |= dict.fromkeys(falls_with(left_out, problem, gpu), "falls")
    state |= {left_out: "out"} if left_out else {}
    return [Box(name, *words[name], state[name]) for name in NEEDS]


def _reasons(problem: AttentionProblem, gpu: Gpu) -> dict[tuple[str, str], str]:
    """(idea, the idea that it needs) -> why, in numbers that also say when it can do without."""
    rows, room = format_kib(lesson.whole_row_bytes(problem)), format_kib(lesson.chip_capacity(gpu))
    seen = min(problem.block_n, problem.kv_len)
    return {
        ("fusion", "tiling"): f"whole rows take {rows}, the chip has {room}",
        ("tiling", "online softmax"): f"a tile sees {seen:,} of {problem.kv_len:,} keys",
        ("fusion", "recomputation"): "the backward pass needs P",
        ("recomputation", "lse"): "with lse, any tile of P can be rebuilt alone",
    }


def _approximations(problem: AttentionProblem) -> None:
    """Exact attention beside the three methods, with as many keys, groups or features as the reader chose."""
    size = choice("Keys, groups or features per query", SIZES, 128, "ideas_approximate", 240)
    exact = forward_flops(problem)
    _, error = lesson.tile_sums(problem, online=True)
    rows = [("**exact attention**, in tiles", f"all {problem.kv_len:,} keys", exact, error)]
    for way in lesson.approximations(problem, size):
        rows.append((f"**{way.name}** ({way.source})", way.idea, way.flops, way.error))
    say(
        table(
            "way | each query looks at | products: | against exact: | error of O:",
            (
                (name, seen, format_flops(flops), f"{flops / exact:.2g}×", format_error(error))
                for name, seen, flops, error in rows
            ),
        )
    )
