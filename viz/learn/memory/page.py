"""Chapter "Memory": the memory hierarchy to scale, and what it costs to move S and P through it."""

import functools

import streamlit as st

from kernels.algorithms.standard.traffic import matrix_bytes
from kernels.device.gpus import GPUS, SHARED_BYTES_PER_CLOCK, Gpu, gpu_named
from kernels.problem import AttentionProblem
from viz.learn.controls import choice, gpu_choice, gpu_here
from viz.learn.memory.figures import bars_html, to_scale_html
from viz.learn.predict import ask
from viz.learn.roofline.maths import memory_against_compute
from viz.learn.words import Words
from viz.shared import runs
from viz.shared.formats import format_bytes, format_ms
from viz.shared.layout import colors, explore_link

WORDS = Words(__file__)
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 65536)
HEAD_DIMS = (32, 64, 128, 256)
HERE = " (this machine)"
ALL, PART, SPECK = "all of S", "more than a hundredth of S", "less than a hundredth of S"


def show() -> None:
    """Draw the chapter."""
    WORDS.draw("start")
    with st.container(horizontal=True, gap="medium"):
        length = choice("N, queries and keys", LENGTHS, 4096, "memory_n", 180)
        head_dim = choice("d, head_dim", HEAD_DIMS, 64, "memory_d", 140)
        gpu = GPUS[gpu_choice("memory_gpu", 140)]
    problem, palette = AttentionProblem(q_len=length, kv_len=length, head_dim=head_dim), colors()
    least = memory_against_compute(problem)
    moving, computing = least.memory_seconds(gpu), least.compute_seconds(gpu)
    hbm, sram = gpu.hbm_bandwidth, gpu.sram_bandwidth
    here = gpu_named(gpu_here(runs.run_store()))
    WORDS.draw(
        "to scale",
        to_scale=to_scale_html(problem, gpu, palette),
        predict=functools.partial(_predict, problem, gpu),
        times=bars_html(
            palette,
            ("Move S and P, in and out", moving, format_ms(moving * 1e3), "standard", "S"),
            ("Compute both products", computing, format_ms(computing * 1e3), "good", ""),
        ),
        longer=moving / computing,
        least=least,
        gpu=gpu,
        speeds=bars_html(
            palette,
            ("Speed of HBM", hbm, f"{format_bytes(hbm)}/s", "standard", "HBM"),
            ("Speed of all SRAM", sram, f"{format_bytes(sram)}/s", "good", "SRAM"),
        ),
        memories=WORDS.rows(
            "memories", ({"gpu": each, "here": HERE if each is here else ""} for each in GPUS.values())
        ),
        per_clock=SHARED_BYTES_PER_CLOCK,
        clock=gpu.clock_hz / 1e9,
    )
    drawn = min(length, 1024)  # no longer than the player draws at once
    played = problem.with_(q_len=drawn, kv_len=drawn)
    explore_link(f"Watch standard attention move S and P, N = {drawn:,}", played, "standard")


def _predict(problem: AttentionProblem, gpu: Gpu) -> None:
    """Which part of S fits into the shared memory of one SM."""
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
