"""Chapter "Five ideas": the summary: how they need each other, and what breaks without one of them."""

from collections.abc import Mapping
from typing import Any, Literal

import streamlit as st

from kernels.algorithms.chip import FLOAT32_BYTES
from kernels.algorithms.flash2.entry import FORWARD, requested_bytes
from kernels.algorithms.standard.traffic import matrix_bytes, standard_bytes, standard_requested
from kernels.device.gpus import Gpu
from kernels.problem import BLOCKS, AttentionProblem
from kernels.traffic.modelled import LSE_BYTES, compulsory_bytes, forward_flops
from viz.learn.controls import choice, gpu_choice, number, switch
from viz.learn.counts import RULE
from viz.learn.ideas import maths as lesson
from viz.learn.ideas.maths import NEEDS, ROWS, falls_with, idle_without, needed_on
from viz.learn.predict import ask
from viz.shared.formats import count_tex, format_kib
from viz.shared.words import Words

WORDS = Words(__file__)
ALL = "all five"
LONGEST = 16384
STATE_WORDS = {"stands": "", "out": "left out", "falls": "falls", "idle": "not needed"}
"""The state of an idea; "idle" if it would work but has nothing to do."""


def show() -> None:
    WORDS.draw("start")
    asked = st.container()
    shown = switch("Leave one out", [ALL, *(f"without {name}" for name in NEEDS)], "ideas_show")
    left_out = None if shown == ALL else shown.removeprefix("without ")
    picture = st.container()
    cards = st.container(horizontal=True, gap="small", key="figures")
    with st.container(horizontal=True):
        length = number("N, queries and keys", 16, LONGEST, 8192, 16, "ideas_n", 200)
        head_dim = number("d, head_dim", 16, 256, 64, 16, "ideas_d", 160)
        block_m = choice("BLOCK_M", BLOCKS, 128, "ideas_block_m", 140)
        block_n = choice("BLOCK_N", BLOCKS, 64, "ideas_block_n", 140)
        gpu = gpu_choice("ideas_gpu", 140)
    tiles = {"block_m": block_m, "block_n": block_n}
    problem = AttentionProblem(q_len=length, kv_len=length, head_dim=head_dim).with_(**tiles)
    with asked:
        _predict(problem, gpu)
    numbers = _numbers(problem, gpu, left_out)
    every, now = numbers["every"], numbers["now"]
    states = dict.fromkeys(NEEDS, "stands")
    states |= dict.fromkeys(idle_without(left_out, problem, gpu), "idle")
    states |= dict.fromkeys(falls_with(left_out, problem, gpu), "falls")
    states |= {left_out: "out"} if left_out else {}
    with picture:
        st.html(idea_map(states, numbers))
        is_whole = left_out == "online softmax" and problem.kv_tiles == 1
        WORDS.draw("one tile" if is_whole else left_out or ALL, **numbers)
    worse = (
        now.forward_bytes > every.forward_bytes,
        now.chip_bytes > numbers["capacity"],
        now.output_error > 1e-9,
        now.kept_bytes > every.kept_bytes,
    )
    for (label, value, than), is_worse in zip(WORDS.cells("cards", **numbers), worse, strict=True):
        color: Literal["red", "off"] = "red" if is_worse else "off"
        cards.metric(label, value, than, delta_color=color, delta_arrow="off", border=True)
    WORDS.draw("what stays", **numbers)


def idea_map(states: Mapping[str, str], numbers: Mapping[str, Any]) -> str:
    """A box per idea in its state, and an arrow from each to what it needs on this shape. HTML."""
    drawn = ""
    for name, row, column, does, figure in WORDS.cells("boxes", **numbers):
        said = STATE_WORDS[states[name]] and f"<em>{STATE_WORDS[states[name]]}</em>"
        about = {"name": name, "state": states[name], "said": said, "does": does, "number": figure}
        drawn += WORDS("box", row=row, column=column, **about)
    for needs, needed, area, direction, head, why in WORDS.cells("arrows", **numbers):
        if (needs, needed) not in needed_on(numbers["problem"], numbers["gpu"]):
            continue
        both, look = (states[needs], states[needed]), ""
        if both in (("falls", "out"), ("falls", "falls")):
            look, head = "broken", "✕"
        elif {"out", "idle"} & {*both}:
            look = "moot"
        place = {"area": area, "look": f"{direction} {look}", "head": head}
        drawn += WORDS("arrow", needs=needs, needed=needed, why=why, **place)
    return f'<div class="idea-map">{drawn}</div>'


def _predict(problem: AttentionProblem, gpu: Gpu) -> None:
    fallen = falls_with("online softmax", problem, gpu)
    names = ", ".join(name for name in NEEDS if name in fallen) or "none"
    count = str(len(fallen))
    ask(WORDS, "question", f"ideas_falls_{count}", [*"01234"], count, names=names)


def _numbers(problem: AttentionProblem, gpu: Gpu, left_out: str | None) -> dict:
    square, matrix, rooms = problem.q_len * problem.kv_len, matrix_bytes(problem), gpu.program_limits.items()
    product, whole = forward_flops(problem) // 2, lesson.in_whole_rows(problem, gpu)
    moving, computing = 2 * matrix / gpu.hbm_bandwidth, product / gpu.fp16_flops
    on_chip = (
        f"{format_kib(FORWARD.chip_bytes(problem, memory))} of {format_kib(limit)} {memory}"
        for memory, limit in rooms
    )
    return {
        "problem": problem,
        "gpu": gpu,
        "every": lesson.costs(problem, gpu),
        "now": lesson.costs(problem, gpu, left_out),
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
        "flops": 2 * product,
        "product": product,
        "requested": requested_bytes(problem),
        "standard": standard_requested(problem),
        "least_standard": standard_bytes(problem),
        "least": compulsory_bytes(problem),
        "three_pass": lesson.three_pass_bytes(problem),
        "kept_weights": lesson.kept_weights(problem, gpu)[0],
        "most_rows": lesson.chip_capacity(gpu) // (problem.kv_len * FLOAT32_BYTES),
        "whole_rows": WORDS("whole rows", whole=whole) if whole else WORDS("too few rows"),
        "seen": min(problem.block_n, problem.kv_len),
        "on_chip": ", ".join(on_chip),
        "room": ", ".join(f"{format_kib(limit)} {memory}" for memory, limit in rooms),
        "capacity": lesson.chip_capacity(gpu),
        "moving": moving,
        "computing": computing,
        "ratio": moving / computing,
        "links": [
            ("The five together: FlashAttention-2 on this shape", problem),
            ("None of them: standard attention on this shape", problem, "standard"),
            ("lse at work: the backward pass", problem, "backward"),
        ],
    }
