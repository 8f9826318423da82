"""Chapter "Memory": the memory hierarchy to scale, and what it costs to move S and P through it."""

from __future__ import annotations

import streamlit as st

from kernels.device.gpus import GPUS, SHARED_BYTES_PER_CLOCK, Gpu
from kernels.lessons.memory import ALL, PART, SPECK, matrix_bytes, scores_bytes, share_in_sram, share_words
from kernels.lessons.roofline import memory_against_compute
from kernels.problem import AttentionProblem
from viz.learn.controls import choice, gpu_choice
from viz.learn.figures.hierarchy import Bar, bars_html, to_scale_html
from viz.learn.figures.roofline import hierarchy_figure
from viz.learn.gpu_here import gpu_here, memory_table
from viz.learn.predict import choose
from viz.shared import runs
from viz.shared.formats import format_bytes, format_flops, format_kib, format_ms, format_ratio, significant
from viz.shared.glossary import say
from viz.shared.layout import colors, explore_link, plot

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 65536)
HEAD_DIMS = (32, 64, 128, 256)


def show() -> None:
    """Draw the chapter."""
    say(
        "Attention is $O = \\mathrm{softmax}(QK^{\\mathsf T}/\\sqrt d)\\,V$. The N rows of Q are the "
        "[[query|queries]], one per [[token]] of the text, the N rows of K the [[key|keys]], and each has d "
        "numbers ([[head_dim]]). The dot product of a query and a key, divided by √d, is a [[score]]. So the "
        "matrix of scores [[score|S]] has N rows and N columns. [[softmax|Softmax]] turns each row of S into "
        "[[weight|weights]] that add up to 1: the matrix [[weight|P]]. Each row of the [[output|output O]] "
        "is the sum of all rows of V, the [[value|values]], each times its weight."
    )
    say(
        "A [[GPU]] computes on its [[SM|SMs]]. Each SM has a little fast memory, its [[SRAM]]. All matrices "
        "lie in the large, slower [[HBM]], and have to come to an SM before anything can be done with them."
    )
    problem, gpu = _inputs()
    st.html(to_scale_html(problem, gpu, colors()))
    share = share_in_sram(problem, gpu)
    choose(
        f"memory_{problem.q_len}_{gpu.name}",
        f"N = {problem.q_len:,}. How much of [[score|S]] fits into the [[SRAM]] of one SM at a time? "
        "Look at the areas.",
        (ALL, PART, SPECK),
        share_words(share),
        f"S has N² = {problem.q_len**2:,} scores of {problem.itemsize} bytes in HBM: "
        f"{format_bytes(scores_bytes(problem))}. The SRAM of an SM has "
        f"{format_kib(gpu.shared_bytes_per_sm)}: {significant(100 * share, 2)} % of S. If N doubles, Q, K, V "
        f"and O double ({format_bytes(matrix_bytes(problem))} each), and S becomes four "
        "times as large.",
    )
    _three_kernels(problem, gpu)
    with st.expander("The memories of other GPUs"):
        plot(hierarchy_figure(list(GPUS.values()), gpu, colors()), key="memory_hierarchy")
        st.markdown(memory_table(gpu_here(runs.run_store())))
    say(
        f"**Modelled**, one [[head]] in [[float16]]. Sizes and speeds are from datasheets ({gpu.source}). "
        f"Only the speed of the SRAM is derived: {SHARED_BYTES_PER_CLOCK} bytes per SM at each tick of a "
        f"clock of {significant(gpu.clock_hz / 1e9)} GHz. SRAM here is the shared memory of an SM, "
        f"{format_kib(gpu.shared_bytes_per_sm)}; the folded table adds the rest of its L1 cache. One "
        f"[[program]] can have {format_kib(gpu.shared_bytes_per_program)} of it, since the system keeps the "
        "rest; [[registers]] come on top. The cache [[L2]] may keep a part of S and P for a moment, but all "
        "heads share it, and S of each grows with N².",
        small=True,
    )
    played = _played(problem)
    explore_link(f"Watch standard attention move S and P, N = {played.q_len:,}", played, "standard")


def _inputs() -> tuple[AttentionProblem, Gpu]:
    with st.container(horizontal=True, gap="medium"):
        length = choice("N, queries and keys", LENGTHS, 4096, "memory_n", 180)
        head_dim = choice("d, head_dim", HEAD_DIMS, 64, "memory_d", 140)
        gpu = GPUS[gpu_choice("memory_gpu", 140)]
    return AttentionProblem(q_len=length, kv_len=length, head_dim=head_dim), gpu


def _three_kernels(problem: AttentionProblem, gpu: Gpu) -> None:
    """The failure: standard attention writes S and P to HBM and reads them back."""
    st.subheader("What goes wrong if attention is computed as it is written", anchor=False)
    say(
        "Written down as three steps, attention runs as three [[kernel|kernels]]: one computes S = QKᵀ/√d, "
        "one softmax, one PV. This is [[standard attention]]. The pages Explore and Measure time it as "
        "PyTorch runs it, and call it [[naive attention]]. A kernel can only hand on its result through "
        "[[HBM]]. So S is written and read back, and so is P, although nobody wants either of them: **only O "
        "is asked for.**"
    )
    _times(problem, gpu)
    say(
        "**The way out**: never write S. Compute a small piece of it in SRAM, use it at once for O, and "
        "forget it. One thing stands in the way: softmax divides by the sum of a whole row, and a piece does "
        "not know that sum. The next chapter removes this obstacle."
    )


def _times(problem: AttentionProblem, gpu: Gpu) -> None:
    """Least times of moving and of computing, and the speeds of both memories, to scale."""
    times = memory_against_compute(problem.q_len, problem.kv_len, problem.head_dim, problem.itemsize, gpu)
    moving, computing = times.memory_seconds, times.compute_seconds
    bars = (
        Bar("Move S and P, in and out", moving, format_ms(moving * 1e3), "standard", "S"),
        Bar("Compute both products", computing, format_ms(computing * 1e3), "good"),
    )
    st.html(bars_html(bars, colors()))
    waiting = " For most of it the [[SM|SMs]] wait." if moving > 2 * computing else ""
    say(
        f"Moving S and P takes **{format_ratio(moving / computing)} the time** of both products.{waiting} S "
        f"and P are each written once and read once: {format_bytes(times.bytes)} at "
        f"{format_bytes(gpu.hbm_bandwidth)}/s. The products need {format_flops(times.flops)} ([[FLOP]]: an "
        f"addition or a multiplication) at {format_flops(gpu.fp16_flops)}/s. Both times are the shortest "
        "that this GPU can reach. The next two bars are not times but the speeds of the two memories, which "
        f"do not depend on N and d: the [[SRAM]] of all {gpu.sm_count} SMs delivers bytes "
        f"{format_ratio(gpu.sram_bandwidth / gpu.hbm_bandwidth)} as fast as [[HBM]]."
    )
    st.html(
        bars_html(
            (
                Bar(
                    "Speed of HBM",
                    gpu.hbm_bandwidth,
                    f"{format_bytes(gpu.hbm_bandwidth)}/s",
                    "standard",
                    "HBM",
                ),
                Bar(
                    "Speed of all SRAM",
                    gpu.sram_bandwidth,
                    f"{format_bytes(gpu.sram_bandwidth)}/s",
                    "good",
                    "SRAM",
                ),
            ),
            colors(),
        )
    )


def _played(problem: AttentionProblem) -> AttentionProblem:
    """The reader's problem, no longer than the player draws at once."""
    length = min(problem.q_len, 1024)
    return problem.with_(q_len=length, kv_len=length)
