"""Chapter 2: overflow, the online softmax step by step, what the rescale is for, and passes over the data."""

from __future__ import annotations

import numpy as np
import streamlit as st

from kernels.lessons.numbers import UnreadableNumbers, parse_row
from kernels.lessons.softmax import (
    FORMATS,
    InFormat,
    OnlineStep,
    all_ways,
    exp_limits,
    online_shares,
    online_steps,
    softmax,
    softmax_in,
    unscaled_shares,
)
from kernels.problem import AttentionProblem
from viz.learn.figures.softmax_charts import overflow_figure, sum_figure, unscaled_figure, weights_figure
from viz.learn.figures.softmax_row import passes_html, row_html
from viz.learn.stepper import stepper
from viz.learn.url_state import keep_in_url, put_in_url, take_from_url
from viz.shared.layout import colors, explore_link, plot
from viz.shared.theme import format_error, format_number, format_tex

EXAMPLES = ("3, 2, 5, 1", "1000, 999, 995")
PARTS = ("Subtract the max", "One pass", "Without the rescale", "Three passes, two, one")


def show() -> None:
    row, block = _input()
    if row is None:
        return
    steps = online_steps(row, block)
    parts = st.tabs(PARTS, key="softmax_part", bind="query-params")
    for part, draw in zip(parts, (_overflow, _one_pass, _without_rescale, _passes), strict=True):
        if part.open:
            with part:
                draw(row, steps, block)
    _links(steps)


def _input() -> tuple[np.ndarray | None, int]:
    """The row and the block size, or None after saying what is wrong with the text."""
    left, middle, right = st.columns([4, 2, 3], vertical_alignment="bottom")
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
    return row, max(1, int(block))


def _one_pass(row: np.ndarray, steps: tuple[OnlineStep, ...], block: int) -> None:
    now = stepper("softmax_step", len(steps), first=2) - 1
    step = steps[now]
    st.html(row_html(row, steps, now, colors()))
    chart, formulas = st.columns([3, 2], gap="large", vertical_alignment="center")
    with chart:
        plot(sum_figure(steps, now, colors()), key="softmax_sum")
    with formulas:
        for formula in _update(step):
            st.latex(formula)
    if now == len(steps) - 1:
        difference = np.abs(online_shares(row, steps) - softmax(row)).max()
        st.success(
            f"After the last block m and l are those of the whole row, so e^(x − m) / l is the softmax. Largest difference from the "
            f"softmax taken at once: {format_error(difference)} (computed, float64).",
            icon=":material/check:",
        )


def _update(step: OnlineStep) -> list[str]:
    """The three updates with the numbers of this step."""
    before, largest, m = (
        format_tex(value, 6) for value in (step.m_before, step.m + np.log(step.terms.max()), step.m)
    )
    l_before, l, alpha, added = (
        format_tex(value, 4) for value in (step.l_before, step.l, step.alpha, step.block_sum)
    )
    return [
        rf"m' = \max(m, \max x) = \max({before},\, {largest}) = {m}",
        rf"\alpha = e^{{m - m'}} = e^{{{before} - {_negative(m)}}} = {alpha}",
        r"l' = \alpha\, l + \textstyle\sum e^{x - m'}",
        rf"\phantom{{l'}} = {alpha} \cdot {l_before} + {added} = {l}",
    ]


def _negative(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def _without_rescale(row: np.ndarray, steps: tuple[OnlineStep, ...], block: int) -> None:
    now = stepper("softmax_step", len(steps), first=2) - 1
    step, right, wrong = steps[now], softmax(row), unscaled_shares(steps)
    sums, weights = st.columns(2, gap="large")
    with sums:
        plot(unscaled_figure(steps, now, colors()), key="softmax_unscaled")
        added, alpha, l_before, l = (
            format_tex(value, 4) for value in (step.block_sum, step.alpha, step.l_before, step.l)
        )
        wrong_before, wrong_l = format_tex(step.l_unscaled_before, 4), format_tex(step.l_unscaled, 4)
        terms = r"\textstyle\sum e^{x - m'}"
        st.latex(
            rf"\begin{{aligned}} &\text{{wrong: }} l' = l + {terms} \\ &\quad = {wrong_before} + {added} = {wrong_l} \\[0.5em]"
            rf"&\text{{right: }} l' = \alpha\, l + {terms} \\ &\quad = {alpha} \cdot {l_before} + {added} = {l} \end{{aligned}}"
        )
    with weights:
        plot(weights_figure(row, right, wrong, colors()), key="softmax_weights")
        worst = int(np.abs(wrong - right).argmax())
        if abs(wrong[worst] - right[worst]) < 1e-12:
            st.info(
                "No harm on this row: its max is in the first block, so every later α is 1. Try [3, 2, 5, 1].",
                icon=":material/info:",
            )
        else:
            st.error(
                f"Terms taken against different maxima are mixed. The weights still add up to {format_number(wrong.sum())}, so nothing looks "
                f"wrong, yet {format_number(row[worst], 6)} weighs **{format_number(wrong[worst])}** instead of **{format_number(right[worst])}**.",
                icon=":material/close:",
            )


def _overflow(row: np.ndarray, steps: tuple[OnlineStep, ...], block: int) -> None:
    st.markdown(
        "**Softmax** turns a row of scores into positive weights that add up to 1. But exp soon leaves what a number format can hold."
    )
    number_format = st.segmented_control(
        "number format",
        list(FORMATS),
        default="float32",
        required=True,
        key="softmax_format",
        bind="query-params",
        label_visibility="collapsed",
    )
    plot(overflow_figure(row, exp_limits(number_format), number_format, colors()), key="softmax_overflow")
    for place, subtract in zip(st.columns(2, gap="large"), (False, True), strict=True):
        with place:
            _in_format(softmax_in(row, number_format, subtract), number_format, subtract)


def _in_format(result: InFormat, number_format: str, subtract: bool) -> None:
    """One way to compute the softmax: formula, verdict, and every number of it."""
    st.latex(
        r"\frac{e^{x_i - m}}{\sum_j e^{x_j - m}}, \quad m = \max_j x_j"
        if subtract
        else r"\frac{e^{x_i}}{\sum_j e^{x_j}}"
    )
    verdict = f"in {number_format}, the sum is {format_number(result.total, 4)}"
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


def _passes(row: np.ndarray, steps: tuple[OnlineStep, ...], block: int) -> None:
    ways = all_ways(row, block)
    reads = stepper("softmax_reads", 3 * len(steps), first=len(steps))
    st.html(passes_html(ways, reads, colors()))
    for place, words, formula in zip(
        st.columns(2, gap="large"),
        (
            "**Three passes to two**: a surrogate sum, taken against the max so far",
            "**Two passes to one**: a surrogate output, divided by the sum so far",
        ),
        (
            r"l_i = l_{i-1}\, e^{m_{i-1} - m_i} + e^{x_i - m_i}",
            r"o_i = o_{i-1}\, \frac{l_{i-1}\, e^{m_{i-1} - m_i}}{l_i} + \frac{e^{x_i - m_i}}{l_i}\, v_i",
        ),
        strict=True,
    ):
        place.markdown(words)
        place.latex(formula)
    st.caption(
        "All three find o, the sum of softmax(x) times the values v, here 1, 2, 3, … A pass needs what the one before it found; a surrogate makes do "
        "with what is known so far, and is right in the end, when the max so far is the max. Reads are **counted** while the three run. "
        "(Milakov and Gimelshein 2018; Ye 2023)"
    )


def _links(steps: tuple[OnlineStep, ...]) -> None:
    """Explore with as many key tiles as there are blocks, and a max that grows as on this row, or does not."""
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
