"""Errata of the sources that need more than a line: what is printed, and the numbers that show it."""

from __future__ import annotations

import streamlit as st

from kernels.device.gpus import GPUS
from kernels.lessons import io as io_lesson
from kernels.lessons import roofline as lesson
from kernels.lessons.backward_traffic import LOOP_ORDERS, inner_loop_elements
from kernels.problem import AttentionProblem
from viz.learn.backward_words import counted_elements
from viz.learn.figures.gradients import loop_order_figure
from viz.learn.roofline import microseconds, say_memory_against_compute
from viz.shared.formats import count_tex, format_flops, significant
from viz.shared.layout import colors, plot

EXAMPLE = AttentionProblem(q_len=1024, kv_len=1024, head_dim=64)
"""The example of Chu, Liu and Lin 2026; their GPU is the A100."""


def errata() -> None:
    """Five expanders, on the sources' own examples. All numbers are modelled, except the counted bars."""
    with st.expander("Chu, Liu and Lin 2026: memory against computation, 3.74 µs"):
        _memory_against_computation()
    with st.expander("The 156 FLOP/B of the A100"):
        _ridge_of_the_a100()
    with st.expander("MSRA SH Triton Study Group 2025: the fused row without a cache"):
        _fused_row()
    with st.expander("Chu, Liu and Lin 2026 and Dao et al. 2022: which tiles fit"):
        _tiles_that_fit()
    with st.expander("Chu, Liu and Lin 2026: what a backward step of the inner loop moves"):
        _loop_orders()


def _memory_against_computation() -> None:
    length, d, gpu = EXAMPLE.q_len, EXAMPLE.head_dim, GPUS["A100"]
    st.markdown(f"T = {length:,}, d = {d}, float16, {gpu.name}:")
    say_memory_against_compute(EXAMPLE, gpu)
    example = lesson.memory_against_compute(length, length, d, EXAMPLE.itemsize, gpu)
    st.markdown(
        "For the second line they print 3.74 µs. Their own numbers give "
        f"{microseconds(example.memory_seconds)} µs. The printed value comes out "
        f"({microseconds(example.binary_memory_seconds)} µs) if tera is 2⁴⁰ in this line, but 10¹² in the "
        "first. Makers state bandwidth in powers of ten. Memory is the limit either way."
    )


def _ridge_of_the_a100() -> None:
    gpu = GPUS["A100"]
    ridges = {name: gpu.fp16_flops / bandwidth for name, bandwidth in lesson.A100_BANDWIDTHS.items()}
    words = " · ".join(f"{name}: **{ridge:.0f}** FLOP/B" for name, ridge in ridges.items())
    st.markdown(
        f"The much quoted 156 FLOP/B of the A100 is {format_flops(gpu.fp16_flops)}/s over a rounded "
        f"bandwidth. {words}."
    )


def _fused_row() -> None:
    fused = lesson.steps(EXAMPLE, "none").fused
    printed = lesson.printed_fused_elements(EXAMPLE)
    theirs, ours = (
        significant(fused.flops / (count * EXAMPLE.itemsize)) for count in (printed, fused.elements)
    )
    best = EXAMPLE.block_m * EXAMPLE.block_n / (EXAMPLE.block_m + EXAMPLE.block_n)
    st.markdown(
        "In their table without a cache, Q and O of the fused kernel cross the bus once for every key tile: "
        f"{printed:,} elements for {EXAMPLE.q_len:,} queries and keys in tiles of {EXAMPLE.block_m}, "
        f"{theirs} FLOP/B. But a program keeps its query tile and its part of O, so it is "
        f"{fused.elements:,}, {ours} FLOP/B (lse left out, as they do). In $S = QK^{{\\mathsf T}}$ too, "
        "Roofline reads Q once, and they once for every key tile. Their “best intensity” "
        f"$T_QT_K/(T_Q+T_K)$ would be {significant(best)}. They count a multiplication with its addition as "
        "one operation, and elements instead of bytes: in float16 the ratio is the same."
    )


def _tiles_that_fit() -> None:
    d, memory = EXAMPLE.head_dim, (64 << 10) // EXAMPLE.itemsize
    forward = io_lesson.query_outer_blocks(memory, d, 4)
    needed, swapped = (
        io_lesson.elements(io_lesson.backward_blocks(sizes, d))
        for sizes in (forward, io_lesson.key_outer_blocks(memory, d))
    )
    st.markdown(
        f"M is the SRAM, here {memory:,} numbers (64 KiB), with d = {d}.\n"
        "- Eq 43 of Chu, Liu and Lin 2026 asks for blocks < M/4, but eq 44 gives "
        rf"$\lvert I\rvert = \lfloor M/4d\rfloor = {forward.query}$ rows of {d}: "
        f"{forward.query * d:,} numbers, exactly M/4 = {memory // 4:,}. Four of them fill M, so the right "
        f"sign is ≤.\n"
        "- Algorithm 4 of Dao et al. 2022 uses forward tiles of M/4d rows for the backward pass too: with "
        "those of eq 44 "
        rf"$3\lvert I\rvert d+4\lvert J\rvert d+\lvert I\rvert\lvert J\rvert = {needed:,}$ numbers, "
        f"**{needed / memory:.2f} M** (found by Chu, Liu and Lin 2026, whose eq 79 has M/8d). Dao et al. "
        "2022 give the large tile to the keys, which stay on the chip in their loop: "
        f"{swapped:,} numbers, **{swapped / memory:.2f} M** (they also round up)."
    )


def _loop_orders() -> None:
    rows = ["| order | a step moves | blocks, as they count | blocks |", "|:--|:--|--:|--:|"]
    for order in LOOP_ORDERS:
        blocks = [*order.q_blocks, *order.kv_blocks]
        moved = [*blocks, *order.read_back]
        rows.append(f"| {order.label} ({order.slug}) | {', '.join(moved)} | {len(blocks)} | {len(moved)} |")
    st.markdown("\n".join(rows))
    counted = counted_elements(EXAMPLE, {})
    with_sums = [inner_loop_elements(order, EXAMPLE, read_back=True) for order in LOOP_ORDERS]
    printed = [inner_loop_elements(order, EXAMPLE, read_back=False) for order in LOOP_ORDERS]
    plot(loop_order_figure(LOOP_ORDERS, printed, with_sums, counted, colors()), key="errata_orders")
    st.markdown(
        "Chu, Liu and Lin 2026 compare $4\\,T_r\\lvert J\\rvert d$ with $3\\,T_c\\lvert I\\rvert d$, which "
        "is one step of the inner loop for each turn of the outer one. The whole pass moves $4\\,T_rTd$ and "
        f"$3\\,T_cTd$ (${count_tex(printed[0])}$ and ${count_tex(printed[2])}$ elements for T = "
        f"{EXAMPLE.q_len:,}, d = {EXAMPLE.head_dim}, tiles of {EXAMPLE.block_m}). And a sum that is stored "
        "at every step is loaded at every step, which makes it 6 against 4."
    )
