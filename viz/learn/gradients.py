"""Chapter "Gradients": P from lse, the derivation line by line against autograd, and what moves."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
import streamlit as st

from kernels.lessons import gradients as lesson_maths
from kernels.lessons.gradients import LIMITS, GradientLesson
from kernels.lessons.heads import head_counts
from kernels.problem import AttentionProblem
from kernels.worker.failures import FAILURES
from kernels.worker.requests import LessonGradients, LessonGradientsRequest
from viz.learn.backward_orders import loop_orders_view, traffic_problem
from viz.learn.backward_work import work_panel
from viz.learn.controls import choice
from viz.learn.figures.gradients import block_error_figure
from viz.learn.figures.matrices import Matrix, matrices_html
from viz.learn.formulas import formulas
from viz.learn.gradient_graphs import graphs_panel
from viz.learn.gradient_lines import LINE_WORDS, LINES, ROW_BY_ROW, MatrixMaker
from viz.learn.gradient_rebuild import rebuild_panel
from viz.learn.stepper import parts
from viz.learn.url_state import keep_in_url, put_in_url, switch_in_url, take_from_url
from viz.shared import runs, theme
from viz.shared.formats import format_error
from viz.shared.glossary import say
from viz.shared.layout import colors, explore_link, plot
from viz.shared.waiting import redraw_when_done, retry_button

DEFAULT = GradientLesson()
FIRST_LINE = "forward"
WAIT_S = 0.4
"""How long the page waits for autograd before it shows finite differences instead."""
AUTOGRAD, DIFFERENCES, KERNEL = "autograd, float64", "central differences, float64", "Triton kernels, float32"
ALLOWED = {AUTOGRAD: 1e-12, DIFFERENCES: 1e-6, KERNEL: 1e-4}
"""Largest difference that counts as agreement, as a share of the largest value or 1.

Some thousand roundings of float64 and of float32, and what central differences in float64 can resolve.
"""

References = Mapping[str, Mapping[str, np.ndarray]]
"""Who computed them -> derivative -> values."""


def show() -> None:
    """Draw the chapter."""
    draws = {
        "P from lse": _rebuild,
        "Row sums D": _row_sums,
        "Line by line": _line_by_line,
        "Traffic": _traffic,
        "Graphs": _graphs,
    }
    palette = colors()
    parts("gradients_view", {name: functools.partial(draw, palette) for name, draw in draws.items()})


def _rebuild(palette: theme.Palette) -> None:
    rebuild_panel(palette)
    _watch()


def _row_sums(palette: theme.Palette) -> None:
    _block_panel(palette)


def _line_by_line(palette: theme.Palette) -> None:
    say(
        "The whole derivation, one line at a time, with numbers. Read d before a name as [[gradient]]: dV "
        "says how the loss changes with each number of V. Each line is checked against autograd, with which "
        "PyTorch computes gradients."
    )
    line, lesson, part = _inputs()
    references, note = _references(lesson)
    _line_panel(line, lesson, part, references, palette)
    with st.expander("Every line against autograd and our kernels"):
        _all_lines(lesson, references, note)


def _traffic(palette: theme.Palette) -> None:
    problem = loop_orders_view(palette)
    work_panel(problem)


def _graphs(palette: theme.Palette) -> None:
    say(
        "A layer of a model has one more step before attention: it computes Q, K and V from its input Z. "
        "Going back, each gradient takes the way that its matrix took, in the other direction."
    )
    graphs_panel(functools.partial(traffic_problem, tiles=False), _two_tokens_lesson, palette)


def _watch() -> None:
    """Links to the small run in Explore."""
    tiny = AttentionProblem(q_len=32, kv_len=32, head_dim=16, block_m=4, block_n=4)
    with st.container(horizontal=True):
        explore_link("Backward: P is rebuilt from lse, tile by tile", tiny, algorithm="backward")
        explore_link("The same with the query tile outside", tiny, algorithm="backward_q_outer")


def _inputs() -> tuple[str, GradientLesson, int]:
    """The line to show, the layer, and for some lines the row that they show or the number of heads."""
    line = switch_in_url(
        "Line of the derivation",
        list(LINES),
        "gradients_derivation",
        FIRST_LINE,
        label_visibility="collapsed",
    )
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom", key="gradients_inputs"):
        lesson = _lesson_inputs()
        part = _heads(lesson.dim) if line == "heads" else _row(lesson.length) if line in ROW_BY_ROW else 0
    return line, lesson, part


def _lesson() -> GradientLesson:
    """The small layer, if no line is chosen."""
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom", key="gradients_inputs"):
        return _lesson_inputs()


def _two_tokens_lesson() -> GradientLesson:
    """The small layer where N and d are given: only its numbers are the reader's."""
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom", key="gradients_inputs"):
        return GradientLesson(2, 1, *_numbers_inputs())


def _lesson_inputs() -> GradientLesson:
    length = int(_number("N, tokens", "length", 1))
    dim = int(_number("d, features", "dim", 1))
    return GradientLesson(length, dim, *_numbers_inputs())


def _numbers_inputs() -> tuple[int, float]:
    """Seed and spread of the small layer."""
    spread = float(_number("Spread of S", "spread", 0.1))
    return int(_number("Seed", "seed", 1)), spread


def _number(label: str, field: str, step: float) -> float:
    """A number input for one field of the lesson."""
    low, high = LIMITS[field]
    default = getattr(DEFAULT, field)
    return st.number_input(
        label, low, high, default, step, key=f"gradients_{field}", bind="query-params", width=105
    )


def _row(length: int) -> int:
    if st.session_state.get("gradients_row", 0) >= length:
        st.session_state["gradients_row"] = length - 1
    return st.number_input("Row", 0, length - 1, step=1, key="gradients_row", bind="query-params", width=80)


def _heads(dim: int) -> int:
    """A number of heads that divides the features."""
    counts = head_counts(dim)
    return choice("Heads h", counts, counts[min(1, len(counts) - 1)], "gradients_heads", 100)


def _references(lesson: GradientLesson) -> tuple[References, str]:
    """Derivatives by who computed them, and a sentence that says where they are from.

    Finite differences are shown while autograd runs, and if there is no worker or it fails.
    """
    differences = {DIFFERENCES: lesson_maths.finite_differences(lesson)}
    store = runs.run_store()
    if store is None or runs.backend(store) == "replay":
        return differences, (
            "No worker process runs, so the lines are checked against **central finite "
            "differences** in NumPy, which resolve about 1e-10."
        )
    job = store.job(LessonGradientsRequest(lesson))
    if not job.wait(WAIT_S):
        redraw_when_done(job)
        return differences, (
            "Autograd is still running; until it is done, the lines are checked against **central finite "
            "differences** in NumPy."
        )
    try:
        answer = job.result()
        return _references_of(answer), (
            f"**Measured** now, on the same numbers: torch {answer.torch}, in the worker process."
        )
    except FAILURES as error:
        retry_button(store, [job], "gradients-again", "Try autograd again")
        return differences, (
            f"Autograd failed ({error}), so the lines are checked against **central finite differences** in "
            "NumPy."
        )


def _references_of(answer: LessonGradients) -> References:
    """Derivatives by autograd and by our kernels."""
    return {
        who: {name: np.array(rows) for name, rows in derivatives.items()}
        for who, derivatives in ((AUTOGRAD, answer.autograd), (KERNEL, answer.kernel))
    }


def _verdict(lesson: GradientLesson, line: str, difference: float, who: str) -> str:
    """A badge with the largest difference: green if it is only rounding."""
    largest = max(1.0, float(np.abs(lesson_maths.derived(lesson)[line]).max()))
    color = "green" if difference <= ALLOWED[who] * largest else "red"
    return f":{color}-badge[{format_error(difference)}]"


def _line_panel(
    name: str, lesson: GradientLesson, part: int, references: References, palette: theme.Palette
) -> None:
    """The chosen line: words, formulas, the reader's matrices, and its checks."""
    line = LINES[name](MatrixMaker(lesson_maths.derived(lesson)), lesson, part)
    with st.container(border=True, key="gradients_slide"):
        st.markdown(line.words)
        for equation in line.equations:
            st.html(matrices_html(equation, palette))
        formulas(*line.formulas)
        who = next(iter(references))
        differences = lesson_maths.largest_differences(lesson, references[who])
        checks = [
            f"{LINE_WORDS[check]} {_verdict(lesson, check, differences[check], who)}" for check in line.checks
        ]
        if checks:
            remark = f" · {line.checked_against}" if line.checked_against else ""
            st.markdown(f"Largest difference from {who}{remark}: " + " · ".join(checks))
        if line.remark:
            st.markdown(line.remark)
        _back_and_forward(name)


def _back_and_forward(line: str) -> None:
    """Buttons, and arrow keys for the speaker."""
    lines = list(LINES)
    index = lines.index(line)
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        for name, icon, target, shortcut in (
            ("Back", ":material/chevron_left:", max(index - 1, 0), "Left"),
            ("Forward", ":material/chevron_right:", min(index + 1, len(lines) - 1), "Right"),
        ):
            st.button(
                name,
                icon=icon,
                shortcut=shortcut,
                disabled=target == index,
                on_click=put_in_url,
                args=("gradients_derivation", lines[target], FIRST_LINE),
                key=f"gradients_{name}",
            )
        st.caption(f"line {index + 1} of {len(lines)}", width="content")


def _all_lines(lesson: GradientLesson, references: References, note: str) -> None:
    """A table of all lines with their differences from each reference."""
    st.caption(note + " Largest difference of any element; green if it is only rounding.")
    differences = {
        who: lesson_maths.largest_differences(lesson, reference) for who, reference in references.items()
    }
    head = ["| line | " + " | ".join(differences) + " |", "|:--|" + ":--|" * len(differences)]
    rows = []
    for line, words in LINE_WORDS.items():
        cells = [
            _verdict(lesson, line, of_lines[line], who) if line in of_lines else ""
            for who, of_lines in differences.items()
        ]
        rows.append(f"| {words} | " + " | ".join(cells) + " |")
    half = -(-len(rows) // 2)
    for column, part in zip(st.columns(2), (rows[:half], rows[half:]), strict=True):
        column.markdown("\n".join(head + part))
    if KERNEL in differences:
        st.caption(
            "Triton kernels: the layer with our own kernels inside, forward and backward (Q, K and V are "
            "padded with zeros to head_dim 16). They keep S, P and their gradients on the chip, so those "
            "lines have no number to compare."
        )


def _block_panel(palette: theme.Palette) -> None:
    """What happens if each block of keys uses its own sum as D."""
    say(
        "The backward pass starts from dO, the [[gradient]] of O. From it comes the gradient of P, dP = "
        "dO Vᵀ, and then that of S. Softmax ties the scores of a row together, so the gradient of each score "
        "needs one number of its whole row, [[D]]. The next part derives both formulas (∘: entry by entry):"
    )
    formulas(r"dS = P \circ (dP - D),", r"D = \mathrm{rowsum}(P \circ dP)")
    say(
        "But a kernel sees one block of keys at a time. **First try**: each block subtracts the sum of its "
        "own part of the row. That sum is D only if the block spans the row. **The repair**: D is also the "
        "row sum of O ∘ dO, which needs no block of P at all, and is computed before the loop."
    )
    lesson = _lesson()
    choice, chart = st.columns([3, 4], gap="large", vertical_alignment="center")
    with choice:
        block = _block_size(lesson.length)
        _block_sums(lesson, block, palette)
    with chart:
        errors = lesson_maths.block_errors(lesson)
        plot(block_error_figure(errors, block, palette), key="gradients_block_errors")


def _block_size(length: int) -> int:
    default = min(2, length)
    take_from_url("gradients_block", default, lambda text: min(max(int(text), 1), length))
    return st.slider(
        "Keys in a block",
        1,
        length,
        key="gradients_block",
        on_change=keep_in_url,
        args=("gradients_block", default),
    )


def _block_sums(lesson: GradientLesson, block: int, palette: theme.Palette) -> None:
    """The sums of the blocks beside D, and the error that they cause."""
    lines = lesson_maths.derived(lesson)
    spans_the_row = block >= lesson.length
    sums = Matrix("rowsum(P ∘ dP) in each block", lesson_maths.block_sums(lesson, block), "bad")
    whole = Matrix("D", lines["D of O"], "state")
    st.html(matrices_html([sums, "=" if spans_the_row else "≠", whole], palette))
    worst = float(np.abs(lesson_maths.d_scores_by_blocks(lesson, block) - lines["dS"]).max())
    if spans_the_row:
        st.markdown(
            f"The block spans the row: error of dS :green-badge[{format_error(worst)}], only rounding."
        )
        return
    error = lesson_maths.block_errors(lesson)[block - 1]
    st.markdown(
        f"Largest error of dS: :red-badge[{format_error(worst)}], {error.d_scores:.0%} of its largest "
        "value. The sums of the blocks add up to D, but each block subtracts only its own."
    )
