"""Chapter 2: overflow, the online softmax step by step, what the rescale is for, and passes over the data."""

from __future__ import annotations

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.lessons.numbers import UnreadableNumbers, parse_row
from kernels.lessons.softmax import (
    FORMATS,
    InFormat,
    OnlineStep,
    all_ways,
    exp_limits,
    numerators,
    online_shares,
    online_steps,
    softmax,
    softmax_in,
    unscaled_shares,
)
from kernels.problem import AttentionProblem
from viz.learn.controls import switch
from viz.learn.figures.softmax_charts import overflow_figure, sum_figure, unscaled_figure, weights_figure
from viz.learn.figures.softmax_row import passes_html, row_html
from viz.learn.stepper import stepper
from viz.learn.url_state import keep_in_url, put_in_url, take_from_url
from viz.shared.formats import format_error, format_number, format_tex
from viz.shared.layout import colors, explore_link, plot

EXAMPLES = ("3, 2, 5, 1", "1000, 999, 995")
"""The first is worked out by hand in "FlashAttention, step by step"; the second overflows."""
PARTS = ("Subtract the max", "One pass", "Without the rescale", "Three passes, two, one")


def show() -> None:
    row, values, block = _input()
    if row is None or values is None:
        return
    steps = online_steps(row, block)
    tabs = st.tabs(PARTS, key="softmax_part", bind="query-params")
    for tab, draw in zip(tabs, (_overflow, _one_pass, _without_rescale, _passes), strict=True):
        if tab.open:
            with tab:
                draw(row, values, steps, block)
    _links(steps)


def _input() -> tuple[np.ndarray | None, np.ndarray | None, int]:
    """The row, its values and the block size; None, after an error on the page, for a text that is no row."""
    left, beside, middle, right = st.columns([3, 3, 2, 3], vertical_alignment="bottom")
    take_from_url("softmax_x", EXAMPLES[0], str)
    text = left.text_input(
        "scores x of one row", key="softmax_x", on_change=keep_in_url, args=("softmax_x", EXAMPLES[0])
    )
    with right.container(horizontal=True):
        for example in EXAMPLES:
            st.button(
                f"[{example}]",
                on_click=put_in_url,
                args=("softmax_x", example, EXAMPLES[0]),
                disabled=text == example,
            )
    try:
        row = parse_row(text)
    except UnreadableNumbers as error:
        st.error(str(error), icon=":material/error:")
        row = None
    block = middle.number_input(
        "block, numbers at a time", 1, 64, 2, key="softmax_block", bind="query-params"
    )
    return row, _values(beside, row), max(1, int(block))


def _values(place: DeltaGenerator, row: np.ndarray | None) -> np.ndarray | None:
    """One value for each score: the reader's, or 1, 2, 3, … if the text is empty."""
    text = place.text_input(
        "values v, one for each score", "", key="softmax_v", bind="query-params", placeholder="1, 2, 3, …"
    )
    if row is None:
        return None
    if not text.strip():
        return np.arange(1.0, len(row) + 1)
    try:
        values = parse_row(text)
    except UnreadableNumbers as error:
        st.error(f"Values: {error}", icon=":material/error:")
        return None
    if len(values) != len(row):
        st.error(
            f"{len(values)} values given for {len(row)} scores. Give one value for each score, or none for "
            "1, 2, 3, …",
            icon=":material/error:",
        )
        return None
    return values


def _one_pass(row: np.ndarray, values: np.ndarray, steps: tuple[OnlineStep, ...], block: int) -> None:
    """The online softmax, block by block."""
    now = stepper("softmax_step", len(steps), first=2) - 1
    step = steps[now]
    st.html(row_html(row, steps, now, colors()))
    chart, formulas = st.columns([3, 2], gap="large", vertical_alignment="center")
    with chart:
        plot(sum_figure(steps, now, colors()), key="softmax_sum")
    with formulas:
        for formula in _update(step):
            st.latex(formula)
        st.latex(_numerator(steps, values, now))
    if now == len(steps) - 1:
        difference = np.abs(online_shares(row, steps) - softmax(row)).max()
        st.success(
            "After the last block, m and l are those of the whole row, so e^(x − m) / l is the softmax. "
            f"Largest difference from the softmax of the whole row at once: {format_error(difference)} "
            "(measured, float64).",
            icon=":material/check:",
        )


def _update(step: OnlineStep) -> list[str]:
    """The three updates with the numbers of this step."""
    block_max = float(step.m + np.log(step.terms.max()))
    before, largest, m = (format_tex(value, 6) for value in (step.m_before, block_max, step.m))
    l_before, l, alpha, added = (
        format_tex(value, 4) for value in (step.l_before, step.l, step.alpha, step.block_sum)
    )
    return [
        rf"m' = \max(m, \max x) = \max({before},\, {largest}) = {m}",
        rf"\alpha = e^{{m - m'}} = e^{{{before} - {_negative(m)}}} = {alpha}",
        r"l' = \alpha\, l + \textstyle\sum e^{x - m'}",
        rf"\phantom{{l'}} = {alpha} \cdot {l_before} + {added} = {l}",
    ]


def _numerator(steps: tuple[OnlineStep, ...], values: np.ndarray, now: int) -> str:
    """The numerator Y with the values of this block, and the output so far."""
    step, all_y = steps[now], numerators(steps, values)
    before = all_y[now - 1] if now else 0.0
    added = float(step.terms @ values[step.start : step.end])
    alpha, y_before, new, y, l, output = (
        format_tex(number, 4)
        for number in (step.alpha, before, added, all_y[now], step.l, all_y[now] / step.l)
    )
    return (
        r"\begin{aligned} Y' &= \alpha\, Y + \textstyle\sum e^{x - m'} v \\ "
        rf"&= {alpha} \cdot {y_before} + {new} = {y} \\ o &= Y' / l' = {y} / {l} = {output} \end{{aligned}}"
    )


def _negative(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def _without_rescale(row: np.ndarray, values: np.ndarray, steps: tuple[OnlineStep, ...], block: int) -> None:
    """The row sum and the weights with the rescale and without it."""
    now = stepper("softmax_step", len(steps), first=2) - 1
    right, wrong = softmax(row), unscaled_shares(steps)
    sums, weights = st.columns(2, gap="large")
    with sums:
        plot(unscaled_figure(steps, now, colors()), key="softmax_unscaled")
        st.latex(_both_updates(steps[now]))
    with weights:
        plot(weights_figure(row, right, wrong, colors()), key="softmax_weights")
        worst = int(np.abs(wrong - right).argmax())
        if abs(wrong[worst] - right[worst]) < 1e-12:
            st.info(
                "No harm on this row: its max is in the first block, so every later α is 1. Try [3, 2, 5, "
                "1].",
                icon=":material/info:",
            )
        else:
            st.error(
                "Terms with different maxima are mixed. The weights still add up to "
                f"{format_number(wrong.sum())}, so nothing looks wrong, but {format_number(row[worst], 6)} "
                f"weighs **{format_number(wrong[worst])}** instead of **{format_number(right[worst])}**.",
                icon=":material/close:",
            )


def _both_updates(step: OnlineStep) -> str:
    """The update of the row sum without and with alpha, with the numbers of this step."""
    added, alpha, l_before, l = (
        format_tex(value, 4) for value in (step.block_sum, step.alpha, step.l_before, step.l)
    )
    wrong_before, wrong_l = format_tex(step.l_unscaled_before, 4), format_tex(step.l_unscaled, 4)
    terms = r"\textstyle\sum e^{x - m'}"
    return (
        r"\begin{aligned} "
        rf"&\text{{wrong: }} l' = l + {terms} \\ &\quad = {wrong_before} + {added} = {wrong_l} \\[0.5em]"
        rf"&\text{{right: }} l' = \alpha\, l + {terms} \\ &\quad = {alpha} \cdot {l_before} + {added} = {l} "
        r"\end{aligned}"
    )


def _overflow(row: np.ndarray, values: np.ndarray, steps: tuple[OnlineStep, ...], block: int) -> None:
    """Softmax in one number format, without and with the max subtracted."""
    st.markdown(
        "**Softmax** turns a row of scores into positive weights that add up to 1. But exp quickly exceeds "
        "what a number format can hold."
    )
    number_format = switch("number format", FORMATS, "softmax_format", default="float32")
    plot(overflow_figure(row, exp_limits(number_format), number_format, colors()), key="softmax_overflow")
    for column, subtract in zip(st.columns(2, gap="large"), (False, True), strict=True):
        with column:
            _in_format(softmax_in(row, number_format, subtract), number_format, subtract)


def _in_format(result: InFormat, number_format: str, subtract: bool) -> None:
    """One way to compute the softmax: formula, verdict, and all its numbers."""
    st.latex(
        r"\frac{e^{x_i - m}}{\sum_j e^{x_j - m}}, \quad m = \max_j x_j"
        if subtract
        else r"\frac{e^{x_i}}{\sum_j e^{x_j}}"
    )
    verdict = f"in {number_format}, the sum is {format_number(float(result.total), 4)}"
    if result.fails:
        st.error(f"Fails {verdict}.", icon=":material/close:")
    else:
        st.success(
            f"Works {verdict}." + ("" if subtract else f" Try [{EXAMPLES[1]}]."), icon=":material/check:"
        )
    exponent = "x − m" if subtract else "x"
    columns = {
        exponent: (result.exponents, 6),
        f"e^({exponent})": (result.exponentials, 4),
        "weight": (result.shares, 4),
    }
    st.table(
        {
            name: [format_number(value, digits) for value in values]
            for name, (values, digits) in columns.items()
        }
    )


def _passes(row: np.ndarray, values: np.ndarray, steps: tuple[OnlineStep, ...], block: int) -> None:
    """Three, two and one pass over the row, read by read."""
    ways = all_ways(row, block, values)
    reads = stepper("softmax_reads", 3 * len(steps), first=len(steps))
    st.html(passes_html(ways, reads, colors()))
    for column, words, formula in zip(
        st.columns(2, gap="large"),
        (
            "**Three passes to two**: the sum uses the largest score seen so far",
            "**Two passes to one**: the output is divided by the sum so far",
        ),
        (
            r"l_i = l_{i-1}\, e^{m_{i-1} - m_i} + e^{x_i - m_i}",
            r"o_i = o_{i-1}\, \frac{l_{i-1}\, e^{m_{i-1} - m_i}}{l_i} + \frac{e^{x_i - m_i}}{l_i}\, v_i",
        ),
        strict=True,
    ):
        column.markdown(words)
        column.latex(formula)
    st.caption(
        "All three compute o, the sum of softmax(x) times the values v. Each pass needs the "
        "result of the pass before it, unless it uses the largest score seen so far: when a larger one "
        "appears, the old sum is multiplied by e^(old − new). After the last block this is the exact sum. "
        "Reads are **counted** while the three run (Milakov and Gimelshein 2018; Ye 2023)."
    )


def _links(steps: tuple[OnlineStep, ...]) -> None:
    """Links to Explore: as many key tiles as blocks, and a max that grows if it does on this row."""
    grows = any(step.alpha < 1 for step in steps[1:])
    length = 4 * max(len(steps), 2)
    problem = AttentionProblem(
        q_len=4,
        kv_len=length,
        head_dim=16,
        block_m=4,
        block_n=4,
        inputs="growing_max" if grows else "falling_max",
    )
    words = "the max grows, a rescale at each tile" if grows else "the max comes first, no rescale"
    with st.container(horizontal=True):
        explore_link(f"The same in the kernel: {length // 4} key tiles, {words}", problem)
        explore_link(
            "Scores that overflow without the max", problem.with_(inputs="large", kv_len=32, q_len=32)
        )
