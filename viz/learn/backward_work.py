"""Panel of the Gradients chapter: the work of the backward pass line by line, and why it is slower."""

from __future__ import annotations

import streamlit as st

from kernels.algorithms import ALGORITHMS
from kernels.lessons.backward_traffic import backward_work
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import forward_flops
from viz.learn.comparing import compared
from viz.shared.formats import format_bytes, format_flops, format_kib


def work_panel(problem: AttentionProblem) -> None:
    """An expander with the table and the reasons, for one head of the reader's shape."""
    with st.expander("The work of the backward pass, line by line, and why it takes longer than forward"):
        table, reasons = st.columns(2, gap="large")
        table.markdown(_table(problem))
        reasons.markdown(_reasons(problem))
        st.caption(
            "Modelled, one head without a mask. Lines of Chu, Liu and Lin 2026, who count "
            "$8\\,N^2d + 2\\,N^2 + 2\\,Nd$ for the standard backward pass, which has P from the forward pass."
        )


def _table(problem: AttentionProblem) -> str:
    work = backward_work(problem)
    standard = sum(line.flops for line in work if not line.recomputed)
    rows = [f"| {line.line} | ${line.formula}$ | {format_flops(line.flops)} |" for line in work]
    return "\n".join(
        [
            "| line | operations | on this shape |",
            "|:--|--:|--:|",
            *rows,
            f"| **without S again** | $8\\,N^2d + 2\\,N^2 + 2\\,Nd$ | **{format_flops(standard)}** |",
            f"| **all** | | **{format_flops(sum(line.flops for line in work))}** |",
        ]
    )


def _reasons(problem: AttentionProblem) -> str:
    forward, backward = ALGORITHMS["flash2"], ALGORITHMS["backward"]
    work = sum(line.flops for line in backward_work(problem))
    products = sum(kernel.products for kernel in backward.kernels)
    chips = [algorithm.chip_bytes(problem) for algorithm in (forward, backward)]
    moved = [algorithm.requested_bytes(problem) for algorithm in (forward, backward)]
    less_room = compared(chips[1], chips[0])
    return (
        f"- **Five products instead of two**: {format_flops(work)} in all, "
        f"{compared(work, forward_flops(problem))} the two products of the forward pass "
        f"({format_flops(forward_flops(problem))}).\n"
        "- **Recomputation**: one of the five products is S again, because P was not kept. Our two kernels "
        f"with products each compute S and dP, so together they do {products} products.\n"
        "- **Room on the chip**: with these tiles a program of the backward pass keeps "
        f"{format_kib(chips[1])}, {less_room} one of the forward pass "
        f"({format_kib(chips[0])}). If it keeps more, its tiles must be smaller, and smaller tiles re-read "
        "more.\n"
        f"- **Traffic**: the backward kernels ask for {format_bytes(moved[1])}, "
        f"{compared(moved[1], moved[0])} the forward kernel ({format_bytes(moved[0])})."
    )
