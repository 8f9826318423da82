"""Chapter "Memory": the memory hierarchy to scale, and what it costs to move S and P through it."""

import functools
import math

import streamlit as st

from kernels.algorithms.standard.traffic import matrix_bytes
from kernels.device.gpus import GPUS, SHARED_BYTES_PER_CLOCK, Gpu
from kernels.problem import AttentionProblem
from viz.learn.controls import choice, gpu_choice
from viz.learn.predict import ask
from viz.learn.roofline.maths import memory_against_compute
from viz.shared import theme
from viz.shared.formats import format_bytes, format_kib, format_ms
from viz.shared.glossary import symbol_class
from viz.shared.layout import colors, explore_link
from viz.shared.words import Words

WORDS = Words(__file__)
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 65536)
HEAD_DIMS = (32, 64, 128, 256)
HBM_SIDE = 230.0
"""Side of the square that stands for HBM, in px; all others follow from it."""
ZOOM_SIDE = 210.0
"""Side of the largest square of the magnified part."""
ALL, PART, SPECK = "all of S", "more than a hundredth of S", "less than a hundredth of S"


def show() -> None:
    WORDS.draw("start")
    with st.container(horizontal=True, gap="medium"):
        length = choice("N, queries and keys", LENGTHS, 8192, "memory_n", 180)
        head_dim = choice("d, head_dim", HEAD_DIMS, 64, "memory_d", 140)
        gpu = gpu_choice("memory_gpu", 140)
    problem, palette = AttentionProblem(q_len=length, kv_len=length, head_dim=head_dim), colors()
    least = memory_against_compute(problem)
    moving, computing = least.memory_seconds(gpu), least.compute_seconds(gpu)
    WORDS.draw(
        "to scale",
        to_scale=areas(problem, gpu, palette),
        predict=functools.partial(_predict, problem, gpu),
        times=bars(
            palette,
            ("Move S and P, in and out", moving, format_ms(moving * 1e3), "S"),
            ("Compute both products", computing, format_ms(computing * 1e3), ""),
        ),
        longer=moving / computing,
        least=least,
        gpu=gpu,
        memories=WORDS.rows("memories", ({"gpu": each} for each in GPUS.values())),
        per_clock=SHARED_BYTES_PER_CLOCK,
        clock=gpu.clock_hz / 1e9,
    )
    drawn = min(length, 1024)  # no longer than the player draws at once
    played = problem.with_(q_len=drawn, kv_len=drawn)
    explore_link(f"Watch standard attention move S and P, N = {drawn:,}", played, "standard")


def areas(problem: AttentionProblem, gpu: Gpu, colors: theme.Palette) -> str:
    """HBM with S in it at one scale, and S beside Q and the SRAM of an SM, magnified: HTML."""
    scores, matrix = matrix_bytes(problem), problem.q_len * problem.head_dim * problem.itemsize
    sram, scale = gpu.shared_bytes_per_sm, HBM_SIDE / math.sqrt(gpu.hbm_bytes)
    zoom = ZOOM_SIDE / (scale * math.sqrt(max(scores, sram)))
    squares = (
        (scores, "S", colors.standard, "S", f"{format_bytes(scores)}, the scores of one head"),
        (matrix, "Q", colors.query, "Q", f"{format_bytes(matrix)}; K, V and O are as large"),
        (sram, "SRAM", colors.good, "SRAM of one SM", format_kib(sram)),
    )
    enlarged = WORDS.rows(
        "enlarged",
        (
            {"look": symbol_class(symbol), "side": zoom * scale * math.sqrt(size)}
            | {"color": color, "name": name, "words": words}
            for size, symbol, color, name, words in squares
        ),
    )
    looks, spot = {"hbm": symbol_class("HBM"), "s": symbol_class("S")}, scale * math.sqrt(scores)
    return WORDS("areas", gpu=gpu, side=HBM_SIDE, spot=spot, zoom=zoom, enlarged=enlarged, **looks)


def bars(colors: theme.Palette, *values: tuple[str, float, str, str]) -> str:
    """A slow and a fast bar whose lengths are to each other as their values. HTML.

    Each has a label, a value, the words behind it, and the symbol that it lights, "" for none.
    """
    longest = max(value for _, value, *_ in values)
    rows = (
        {"look": symbol_class(symbol), "label": label, "percent": 100 * value / longest, "words": words}
        | {"color": color}
        for (label, value, words, symbol), color in zip(values, (colors.standard, colors.good), strict=True)
    )
    return f'<div class="scale-bars">{WORDS.rows("bars", rows)}</div>'


def _predict(problem: AttentionProblem, gpu: Gpu) -> None:
    share = gpu.shared_bytes_per_sm / matrix_bytes(problem)
    answer = ALL if share >= 1 else PART if share >= 0.01 else SPECK
    ask(
        *(WORDS, "question", f"memory_{problem.q_len}_{gpu.name}", (ALL, PART, SPECK), answer),
        problem=problem,
        gpu=gpu,
        square=problem.q_len**2,
        scores=matrix_bytes(problem),
        percent=100 * share,
        matrix=problem.q_len * problem.head_dim * problem.itemsize,
    )
