"""The end of the Five ideas chapter: what does not change, what approximates, and what a compiler does."""

from __future__ import annotations

import streamlit as st

from kernels.algorithms.flash2.entry import requested_bytes
from kernels.algorithms.standard.traffic import standard_requested
from kernels.device.gpus import Gpu
from kernels.lessons.approximations import approximations
from kernels.lessons.ideas import ROWS, tile_sums
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import LSE_BYTES, forward_flops
from viz.learn.comparing import compared
from viz.learn.controls import choice
from viz.shared.formats import format_bytes, format_count, format_error, format_flops, format_ms

SIZES = (32, 64, 128, 256)
"""Keys, groups of keys or features that an approximation looks at."""


def what_stays(problem: AttentionProblem, gpu: Gpu) -> None:
    """Three expanders, each with the reader's numbers."""
    with st.expander("The work stays, the traffic changes"):
        st.markdown(_work_table(problem))
        st.caption(
            "Modelled, forward pass of one head. FlashAttention computes one exponential more for each row "
            "at each key tile: the factor alpha, which rescales the old sum."
        )
    with st.expander("Exact, not approximate: the contrast with Linformer, Performer and Longformer"):
        size = choice("Keys, groups or features per query", SIZES, 128, "ideas_approximate", 240)
        st.markdown(_approximation_table(problem, size))
        st.caption(
            "These methods change the result to save work; FlashAttention keeps the result and changes only "
            "the traffic. FLOPs of the products are modelled. Errors are the largest of any entry of O, "
            f"measured in float64 on the first {ROWS} rows of random inputs, without the training that such "
            "models have: they show that the result is another one, not how good a trained model is."
        )
    with st.expander("Why a compiler does not do this by itself"):
        st.markdown(_compiler_words(problem))
        st.markdown(_checkpoint_words(problem, gpu))


def _work_table(problem: AttentionProblem) -> str:
    square = problem.q_len * problem.kv_len
    products = format_flops(forward_flops(problem))
    factors = problem.q_len * problem.kv_tiles
    rows = (
        ("products, $4 N^2 d$", products, products),
        (
            "exponentials",
            f"$N^2$ = {square:,}",
            f"$N^2 + N \\cdot {problem.kv_tiles:,}$ = {square + factors:,}",
        ),
        (
            "bytes requested",
            format_bytes(standard_requested(problem)),
            format_bytes(requested_bytes(problem)),
        ),
        (
            "memory beyond Q, K, V and O",
            f"S and P, {format_bytes(2 * square * problem.itemsize)}",
            f"lse, {format_bytes(problem.q_len * LSE_BYTES)}",
        ),
    )
    lines = [f"| {what} | {standard} | {flash} |" for what, standard, flash in rows]
    return "\n".join(["| | standard attention | FlashAttention-2 |", "|:--|--:|--:|", *lines])


def _approximation_table(problem: AttentionProblem, size: int) -> str:
    exact = forward_flops(problem)
    _, error = tile_sums(problem, online=True)
    lines = [
        f"| **exact attention**, in tiles | all {problem.kv_len:,} keys | {format_flops(exact)} | 1× "
        f"| {format_error(error)} |"
    ]
    for way in approximations(problem, size):
        share = f"{way.flops / exact:.2g}×"
        lines.append(
            f"| **{way.name}** ({way.source}) | {way.idea} | {format_flops(way.flops)} | {share} "
            f"| {format_error(way.error)} |"
        )
    head = "| | each query looks at | products | against exact | error of O |"
    return "\n".join([head, "|:--|:--|--:|--:|--:|", *lines])


def _compiler_words(problem: AttentionProblem) -> str:
    tiles = format_count(problem.kv_tiles, "tile")
    return (
        "A compiler fuses two operations if each number of the second one needs only a few numbers of the "
        "first, as in an addition and an activation. Softmax needs a whole row: its first quotient has to "
        f"wait for all {problem.kv_len:,} keys, which are {tiles} of scores. FlashAttention starts with a "
        "sum that is not final, and rescales what it has when the sum changes. That is not another order of "
        "the same operations but other operations with the same result, and somebody has to know that they "
        "exist."
    )


def _checkpoint_words(problem: AttentionProblem, gpu: Gpu) -> str:
    square = problem.q_len * problem.kv_len
    moving = 2 * square * problem.itemsize / gpu.hbm_bandwidth
    computing = 2 * square * problem.head_dim / gpu.fp16_flops
    return (
        "**Recomputation is checkpointing within one operation.** Checkpointing drops the results of whole "
        "layers and runs the layers again in the backward pass. FlashAttention drops one matrix inside one "
        f"operation. Modelled on the {gpu.name}: to write P and read it back takes at least "
        f"{format_ms(moving * 1e3)}. To compute it again takes $2 N^2 d$ FLOP or at least "
        f"{format_ms(computing * 1e3)}, **{compared(computing, moving)}** that."
    )
