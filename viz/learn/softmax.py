"""Chapter "Softmax": overflow, why old sums are rescaled, the online softmax, and passes over the data."""

from __future__ import annotations

import functools

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.lessons.numbers import UnreadableNumbers, parse_row
from kernels.lessons.predictions import next_numerator, next_state
from kernels.lessons.softmax import (
    OnlineStep,
    all_ways,
    numerators,
    online_shares,
    online_steps,
    softmax,
    unscaled_shares,
)
from kernels.problem import AttentionProblem
from viz.learn.figures.softmax_charts import sum_figure, unscaled_figure, weights_figure
from viz.learn.figures.softmax_row import passes_html, row_html
from viz.learn.predict import type_in
from viz.learn.softmax_overflow import EXAMPLES, overflow_part
from viz.learn.stepper import parts, stepper
from viz.learn.url_state import keep_in_url, put_in_url, take_from_url
from viz.shared.formats import equals, equals_tex, format_error, format_number, format_tex, plain
from viz.shared.glossary import say
from viz.shared.layout import colors, explore_link, plot


def show() -> None:
    """Draw the chapter."""
    say(
        "This chapter follows one row of scores x. Change it if you like: every number below is computed "
        "from it."
    )
    row, values, block = _input()
    if row is None or values is None:
        return
    steps = online_steps(row, block)
    draws = {
        "Subtract the max": overflow_part,
        "Just add": _without_rescale,
        "One pass": _one_pass,
        "Three passes, two, one": _passes,
    }
    parts(
        "softmax_part",
        {name: functools.partial(draw, row, values, steps, block) for name, draw in draws.items()},
        "softmax_step",
        "softmax_reads",
    )
    _links(steps)


def _input() -> tuple[np.ndarray | None, np.ndarray | None, int]:
    """The row, its values and the block size; None, after an error on the page, for a text that is no row."""
    left, beside, middle, right = st.columns([3, 3, 2, 3], vertical_alignment="bottom")
    take_from_url("softmax_x", EXAMPLES[0], str)
    text = left.text_input(
        "x, the scores of one row", key="softmax_x", on_change=keep_in_url, args=("softmax_x", EXAMPLES[0])
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
        st.error(plain(str(error)), icon=":material/error:")
        row = None
    block = middle.number_input("block: scores at a time", 1, 64, 2, key="softmax_block", bind="query-params")
    return row, _values(beside, row), max(1, int(block))


def _values(place: DeltaGenerator, row: np.ndarray | None) -> np.ndarray | None:
    """One value for each score: the reader's, or 1, 2, 3, … if the text is empty."""
    text = place.text_input(
        "v, one value for each score",
        "",
        key="softmax_v",
        bind="query-params",
        placeholder="if empty: 1, 2, …",
    )
    if row is None:
        return None
    if not text.strip():
        return np.arange(1.0, len(row) + 1)
    try:
        values = parse_row(text)
    except UnreadableNumbers as error:
        st.error(f"Values: {plain(str(error))}", icon=":material/error:")
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
    say(
        "If [[row max|m]] grows at a block, the old [[row sum|l]] is multiplied by the [[rescale factor]] "
        "[[rescale factor|α]] = e^(old m − new m) before the new terms are added: so m and l stay right from "
        "block to block. The output is a sum too: Y, of e^(x − m) times the [[value]] v of each score, "
        "divided by l at the end. So Y is multiplied by the same α, and no score is looked at twice."
    )
    now = stepper("softmax_step", len(steps)) - 1
    step = steps[now]
    st.html(row_html(row, steps, now, colors()))
    chart, words = st.columns([3, 4], gap="large")
    with chart:
        plot(sum_figure(steps, now, colors()), key="softmax_sum")
    with words:
        say(block_words(step))
        _next_block(row, values, steps, now, block)
    st.markdown(
        "**In formulas**, with the numbers of this block: m and l are from before it, m′ and l′ are new"
    )
    left, right = st.columns(2, gap="large", vertical_alignment="center")
    with left:
        for formula in _update(step, row):
            st.latex(formula)
    with right:
        st.latex(_numerator(steps, values, now))
        st.caption(
            "Y is the sum of exponentials times values, rescaled as l is; Y / l is the output o. Kernels "
            "call Y acc, the accumulator."
        )


def _next_block(
    row: np.ndarray, values: np.ndarray, steps: tuple[OnlineStep, ...], now: int, block: int
) -> None:
    """m, alpha, l and Y of the next block to predict; after the last one, how exact the result is."""
    step = steps[now]
    if now + 1 < len(steps):
        following = steps[now + 1]
        scores = row[following.start : following.end]
        its_values = values[following.start : following.end]
        numbers, weighed = (", ".join(format_number(x, 6) for x in part) for part in (scores, its_values))
        y, y_after = numerators(steps, values)[now : now + 2]
        added = float(following.terms @ its_values)
        type_in(
            f"softmax_{'_'.join(map(str, [*row, *values]))}_{block}_{now}",
            f"The next block is **{numbers}**, with the values **{weighed}**. Now [[row max|m]] = "
            f"{format_number(step.m, 6)}, [[row sum|l]] {equals(step.l, digits=4)} "
            f"{format_number(step.l, 4)} and Y {equals(y, digits=4)} {format_number(y, 4)}. What will m, "
            "[[rescale factor|α]], l and Y be?",
            (*next_state(step.m, step.l, scores), next_numerator(y, step.m, scores, its_values)),
            f"{block_words(following)} Y = α · {format_number(y, 4)} + {format_number(added, 4)} "
            f"{equals(y, added, y_after, digits=4)} {format_number(y_after, 4)}.",
        )
    else:
        difference = np.abs(online_shares(row, steps) - softmax(row)).max()
        st.success(
            "After the last block, m and l are those of the whole row, so e^(x − m) / l is the softmax. "
            f"Largest difference from the softmax of the whole row at once: {format_error(difference)} "
            "(measured, float64).",
            icon=":material/check:",
        )


def block_words(step: OnlineStep) -> str:
    """What happens to m and l at a block, in plain words with the numbers."""
    m, l, added = format_number(step.m, 6), format_number(step.l, 4), format_number(step.block_sum, 4)
    is_l = equals(step.l, step.l_before, step.block_sum, digits=4)
    if not np.isfinite(step.m_before):
        return (
            f"The first block: its largest score is [[row max|m]] = {m}, and [[row sum|l]] {is_l} {l} is the "
            f"sum of e^(x − {m}). Nothing was summed up before, so [[rescale factor|α]] = e^(−∞) = 0."
        )
    old, old_sum = format_number(step.m_before, 6), format_number(step.l_before, 4)
    if step.alpha == 1:
        return (
            f"No score of this block is above [[row max|m]] = {m}, so [[rescale factor|α]] = e^0 = 1 and the "
            f"old sum stays: [[row sum|l]] = {old_sum} + {added} {is_l} {l}."
        )
    alpha = format_number(step.alpha)
    return (
        f"The largest score rose from {old} to [[row max|m]] = {m}. Everything summed up so far was computed "
        f"with {old}, so it counts [[rescale factor|α]] = e^({old} − {_negative(m)}) "
        f"{equals(step.alpha)} {alpha} times: [[row sum|l]] {is_l} {alpha} · {old_sum} + {added} {is_l} {l}."
    )


def _update(step: OnlineStep, row: np.ndarray) -> list[str]:
    """The three updates with the numbers of this step."""
    scores = row[step.start : step.end]  # not from the terms: they underflow to 0
    before, largest, m = (format_tex(value, 6) for value in (step.m_before, scores.max(), step.m))
    l_before, l, alpha, added = (
        format_tex(value, 4) for value in (step.l_before, step.l, step.alpha, step.block_sum)
    )
    is_l = equals_tex(step.alpha, step.l_before, step.block_sum, step.l)
    return [
        rf"m' = \max(m, \max x) = \max({before},\, {largest}) = {m}",
        rf"\alpha = e^{{m - m'}} = e^{{{before} - {_negative(m)}}} {equals_tex(step.alpha)} {alpha}",
        r"l' = \alpha\, l + \textstyle\sum e^{x - m'}",
        rf"\phantom{{l'}} {is_l} {alpha} \cdot {l_before} + {added} {is_l} {l}",
    ]


def _numerator(steps: tuple[OnlineStep, ...], values: np.ndarray, now: int) -> str:
    """The numerator Y with the values of this block, and the output so far."""
    step, all_y = steps[now], numerators(steps, values)
    before = all_y[now - 1] if now else 0.0
    added = float(step.terms @ values[step.start : step.end])
    numbers = (step.alpha, before, added, all_y[now], step.l, all_y[now] / step.l)
    alpha, y_before, new, y, l, output = (format_tex(number, 4) for number in numbers)
    is_y, is_o = equals_tex(*numbers[:4]), equals_tex(*numbers[3:])
    return (
        r"\begin{aligned} Y' &= \alpha\, Y + \textstyle\sum e^{x - m'} v \\ "
        rf"&{is_y} {alpha} \cdot {y_before} + {new} {is_y} {y} \\ "
        rf"o &= Y' / l' {is_o} {y} / {l} {is_o} {output} \end{{aligned}}"
    )


def _negative(text: str) -> str:
    return f"({text})" if text.startswith(("-", "−")) else text


def _without_rescale(row: np.ndarray, values: np.ndarray, steps: tuple[OnlineStep, ...], block: int) -> None:
    """The row sum and the weights with the rescale and without it."""
    say(
        "Now the row comes in blocks, and each block is seen once. So we keep two numbers: [[row max|m]], "
        "the largest score so far, and [[row sum|l]], the sum of e^(x − m) so far. **First try**: at each "
        "new block just add its terms to l. But if m has grown, the old terms were computed with the old m "
        "and the new terms with the new m, so they do not belong in one sum."
    )
    now = stepper("softmax_step", len(steps)) - 1
    right, wrong = softmax(row), unscaled_shares(steps)
    sums, weights = st.columns(2, gap="large")
    with sums:
        plot(unscaled_figure(steps, now, colors()), key="softmax_unscaled")
    with weights:
        if now + 1 < len(steps):
            st.info("Go Forward to the last block: there it shows what goes wrong.", icon=":material/info:")
        else:
            plot(weights_figure(row, right, wrong, colors()), key="softmax_weights")
            _wrong_weights(row, right, wrong)
    if now + 1 == len(steps) or any(step.alpha < 1 for step in steps[1 : now + 1]):
        _repair(steps[now])  # the failure has been seen


def _repair(step: OnlineStep) -> None:
    """The factor that makes old terms fit new ones."""
    say(
        "**The repair**: e^(x − new m) = e^(x − old m) · e^(old m − new m). The second factor is the same "
        "for all old terms, so their whole sum is repaired by one multiplication with [[rescale factor|α]] "
        "= e^(old m − new m). No old score is needed again."
    )
    st.latex(_both_updates(step))


def _wrong_weights(row: np.ndarray, right: np.ndarray, wrong: np.ndarray) -> None:
    """What the mixed maxima did to the weights."""
    worst = int(np.abs(wrong - right).argmax())
    if abs(wrong[worst] - right[worst]) < 1e-12:
        st.info(
            "No harm on this row: its max is in the first block, so m never grows. Try [3, 2, 5, 1].",
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
    is_wrong = equals_tex(step.l_unscaled_before, step.block_sum, step.l_unscaled)
    is_right = equals_tex(step.alpha, step.l_before, step.block_sum, step.l)
    return (
        r"\begin{aligned} "
        rf"&\text{{wrong: }} l' = l + {terms} \\ &\quad {is_wrong} "
        rf"{wrong_before} + {added} {is_wrong} {wrong_l} \\[0.5em]"
        rf"&\text{{right: }} l' = \alpha\, l + {terms} \\ &\quad {is_right} "
        rf"{alpha} \cdot {l_before} + {added} {is_right} {l} "
        r"\end{aligned}"
    )


def _passes(row: np.ndarray, values: np.ndarray, steps: tuple[OnlineStep, ...], block: int) -> None:
    """Three, two and one pass over the row, read by read."""
    say(
        "A **pass** reads the whole row once from [[HBM]]. How many passes does it take? Plain softmax needs "
        "its max before it can sum, and its sum before it can divide: **three passes**. With a running max "
        "and sum it takes two, and with a running output as well only one."
    )
    ways = all_ways(row, block, values)
    reads = stepper("softmax_reads", 3 * len(steps))
    st.html(passes_html(ways, reads, colors()))
    for column, words, formula in zip(
        st.columns(2, gap="large"),
        (
            "**Three passes to two**: the sum uses the largest score so far, and is rescaled",
            "**Two passes to one**: the output o is rescaled too. Here it is divided by l at every step; to "
            "keep Y and divide once at the end, as in part 3, gives the same",
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
        "All three compute o, the sum of softmax(x) times the values v, and all three are exact. "
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
        explore_link(f"The same in the kernel: {length // 4} blocks of keys, {words}", problem)
        explore_link(
            "Scores that overflow without the max", problem.with_(inputs="large", kv_len=32, q_len=32)
        )
