"""Chapter 6: the derivation line by line on the reader's numbers, each line checked against autograd."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
import streamlit as st

from kernels.lessons import gradients as lesson_maths
from kernels.lessons.gradients import LIMITS, GradientLesson
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.worker.client import Job, JobFailure
from viz.learn.backward_orders import loop_orders_panel
from viz.learn.figures.gradients import block_error_figure
from viz.learn.figures.matrices import Matrix, matrices_html
from viz.learn.formulas import formulas
from viz.learn.gradient_lines import LINE_WORDS, ROW_BY_ROW, SLIDES, Draw
from viz.shared import runs, theme
from viz.shared.layout import colors, explore_link, plot

DEFAULT = GradientLesson()
WAIT_S = 0.4
"""How long the page waits for autograd before it shows the finite differences in its place."""
AUTOGRAD, DIFFERENCES, KERNEL = "autograd, float64", "central differences, float64", "Triton kernels, float32"
ALLOWED = {AUTOGRAD: 1e-12, DIFFERENCES: 1e-6, KERNEL: 1e-4}
"""Largest difference that counts as agreement, as a share of the largest value or 1: some thousand roundings of float64 and of
float32, and what a difference quotient in float64 can resolve."""


def show() -> None:
    palette = colors()
    line, lesson, row = _inputs()
    references, note = _references(lesson)
    _slide(line, lesson, row, references, palette)
    _all_lines(lesson, references, note)
    _block_panel(lesson, palette)
    loop_orders_panel(palette)
    tiny = AttentionProblem(q_len=32, kv_len=32, head_dim=16, block_m=4, block_n=4)
    st.subheader("Watch it", anchor=False)
    with st.container(horizontal=True):
        explore_link("Backward: P comes back from lse, tile by tile", tiny, algorithm="backward")
        explore_link("The same with the query tile outside", tiny, algorithm="backward_q_outer")


def _inputs() -> tuple[str, GradientLesson, int]:
    """The line to show, the problem, and the row for the lines that show one. Streamlit refuses what a URL spoils; the default stands then."""
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom", key="gradients_inputs"):
        line = st.segmented_control(
            "Line of the derivation",
            list(SLIDES),
            default="dV",
            required=True,
            key="gradients_line",
            bind="query-params",
        )
        length = _number("Tokens N", "gradients_length", "length", 1)
        dim = _number("Features d", "gradients_dim", "dim", 1)
        spread = _number("Spread of S", "gradients_spread", "spread", 0.1)
        seed = _number("Seed", "gradients_seed", "seed", 1)
        row = 0
        if line in ROW_BY_ROW:
            if st.session_state.get("gradients_row", 0) >= length:
                st.session_state["gradients_row"] = length - 1
            row = st.number_input(
                "Row", 0, length - 1, step=1, key="gradients_row", bind="query-params", width=80
            )
    return line, GradientLesson(length, dim, seed, float(spread)), row


def _number(label: str, key: str, field: str, step: float) -> int | float:
    low, high = LIMITS[field]
    return st.number_input(
        label, low, high, getattr(DEFAULT, field), step, key=key, bind="query-params", width=105
    )


# --- what the lines are checked against ------------------------------------------------------------------------------


def _references(lesson: GradientLesson) -> tuple[dict[str, Mapping[str, np.ndarray]], str]:
    """Derivatives by who found them, and a sentence about where they are from. Never waits long: difference quotients stand in."""
    stand_in = {DIFFERENCES: lesson_maths.finite_differences(lesson)}
    store = runs.run_store()
    if runs.backend(store) == "replay":
        return (
            stand_in,
            "No worker process here: **central finite differences** in NumPy stand in for autograd; they resolve about 1e-10.",
        )
    job = store.lesson_gradients(lesson)
    if not job.wait(WAIT_S):
        _wait_for(job)
        return (
            stand_in,
            "Autograd is on its way; until it is there, **central finite differences** in NumPy stand in.",
        )
    try:
        return _answers(
            job
        ), f"**Measured** now, on the same numbers: torch {job.result(0)[0]['torch']}, in the worker process."
    except (InvalidProblem, JobFailure) as error:
        if st.button("Try autograd again", icon=":material/refresh:"):
            store.forget(job)
            st.rerun()
        return (
            stand_in,
            f"Autograd gave no answer ({error}): **central finite differences** in NumPy stand in.",
        )


@functools.lru_cache(maxsize=32)
def _answers(job: Job) -> dict[str, dict[str, np.ndarray]]:
    answer = job.result(0)[0]
    return {
        who: {name: np.array(rows) for name, rows in answer[key].items()}
        for who, key in ((AUTOGRAD, "autograd"), (KERNEL, "kernel"))
    }


@st.fragment(run_every=0.4)
def _wait_for(job: Job) -> None:
    if job.done:
        st.rerun()


def _verdict(lesson: GradientLesson, line: str, difference: float, who: str) -> str:
    """A badge: the largest difference, green while it is one of rounding."""
    largest = max(1.0, float(np.abs(lesson_maths.derived(lesson)[line]).max()))
    color = "green" if difference <= ALLOWED[who] * largest else "red"
    return f":{color}-badge[{theme.format_error(difference)}]"


# --- panels ----------------------------------------------------------------------------------------------------------


def _slide(line: str, lesson: GradientLesson, row: int, references: dict, palette: theme.Palette) -> None:
    slide = SLIDES[line](Draw(lesson_maths.derived(lesson)), lesson, row)
    with st.container(border=True, key="gradients_slide"):
        st.markdown(slide.words)
        formulas(*slide.formulas)
        for equation in slide.equations:
            st.html(matrices_html(equation, palette))
        who = next(iter(references))
        differences = lesson_maths.largest_differences(lesson, references[who])
        said = [
            f"{LINE_WORDS[name]} {_verdict(lesson, name, differences[name], who)}" for name in slide.checks
        ]
        if said:
            remark = f" · {slide.checked_against}" if slide.checked_against else ""
            st.markdown(f"Largest difference from {who}{remark}: " + " · ".join(said))
        _back_and_forward(line)


def _back_and_forward(line: str) -> None:
    """Buttons, and arrow keys for the speaker."""
    lines = list(SLIDES)
    at = lines.index(line)
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        for name, icon, move, shortcut in (
            ("Back", ":material/chevron_left:", -1, "Left"),
            ("Forward", ":material/chevron_right:", 1, "Right"),
        ):
            target = min(max(at + move, 0), len(lines) - 1)
            st.button(
                name,
                icon=icon,
                shortcut=shortcut,
                disabled=target == at,
                on_click=_take_line,
                args=(lines[target],),
                key=f"gradients_{name}",
            )
        st.caption(f"line {at + 1} of {len(lines)}", width="content")


def _take_line(line: str) -> None:
    st.session_state["gradients_line"] = line


def _all_lines(lesson: GradientLesson, references: dict, note: str) -> None:
    st.subheader("Every line against autograd", anchor=False)
    st.caption(note + " Largest difference of any element; green where it is rounding.")
    found = {
        who: lesson_maths.largest_differences(lesson, reference) for who, reference in references.items()
    }
    head = ["| line | " + " | ".join(found) + " |", "|:--|" + ":--|" * len(found)]
    rows = []
    for line, words in LINE_WORDS.items():
        cells = [
            _verdict(lesson, line, differences[line], who) if line in differences else ""
            for who, differences in found.items()
        ]
        rows.append(f"| {words} | " + " | ".join(cells) + " |")
    half = -(-len(rows) // 2)
    for place, part in zip(st.columns(2), (rows[:half], rows[half:]), strict=True):
        place.markdown("\n".join(head + part))
    if KERNEL in found:
        st.caption(
            "Triton kernels: the layer with this project's Triton kernels inside, forward and backward (Q, K and V padded with zeros to "
            "head_dim 16). They keep S, P and their gradients on the chip, so there is nothing to compare for those lines."
        )


def _block_panel(lesson: GradientLesson, palette: theme.Palette) -> None:
    st.subheader("Why D has to come from the whole row", anchor=False)
    st.markdown(
        "One of the documents (Nagaraj 2025, section 3.2.4) writes, inside the loop over key blocks, `dS = P * (dP - rowsum(P * dP))` with the "
        "**block's own** sum. That is D only if the block spans the row. Its text has it right: D = rowsum(O ∘ dO), computed before the loop."
    )
    choice, chart = st.columns([3, 4], gap="large", vertical_alignment="center")
    with choice:
        if st.session_state.get("gradients_block", 1) > lesson.length:
            st.session_state["gradients_block"] = lesson.length
        default = None if "gradients_block" in st.session_state else min(2, lesson.length)
        block = st.slider(
            "Keys in a block", 1, lesson.length, default, key="gradients_block", bind="query-params"
        )
        lines = lesson_maths.derived(lesson)
        sums = Matrix("rowsum(P ∘ dP) in each block", lesson_maths.block_sums(lesson, block), "bad")
        st.html(
            matrices_html(
                [sums, "≠" if block < lesson.length else "=", Matrix("D", lines["D of O"], "state")], palette
            )
        )
        error = lesson_maths.block_errors(lesson)[block - 1]
        worst = float(np.abs(lesson_maths.d_scores_by_blocks(lesson, block) - lines["dS"]).max())
        if block < lesson.length:
            st.markdown(
                f"Largest error of dS: :red-badge[{theme.format_error(worst)}], {error.d_scores:.0%} of its largest value. "
                "The sums of the blocks add up to D, but each block takes off only its own."
            )
        else:
            st.markdown(
                f"The block spans the row: error of dS :green-badge[{theme.format_error(worst)}], which is rounding."
            )
    with chart:
        plot(
            block_error_figure(lesson_maths.block_errors(lesson), block, palette),
            key="gradients_block_errors",
        )
