"""Chapter "Softmax": overflow, why old sums are rescaled, the online softmax, and passes over the data."""

import functools

import numpy as np
import streamlit as st

from kernels.problem import AttentionProblem
from viz.learn.controls import keep_in_url, parts, put_in_url, stepper, switch, take_from_url
from viz.learn.numbers import UnreadableNumbers, parse_row
from viz.learn.predict import ask, next_numerator, next_state, type_in, update_tex, update_words
from viz.learn.softmax import figures
from viz.learn.softmax import maths as lesson
from viz.learn.softmax.maths import OnlineStep
from viz.shared.formats import format_number, plain
from viz.shared.glossary import say
from viz.shared.layout import colors, plot
from viz.shared.words import Words, links

WORDS = Words(__file__)
EXAMPLES = ("3, 2, 5, 1", "1000, 999, 995")
"""The first is worked out by hand in "FlashAttention, step by step"; the second overflows."""


def show() -> None:
    WORDS.draw("start")
    given = _input()
    if given is None:
        return
    row, values, block = given
    steps = lesson.online_steps(row, block)
    draws = {
        "Exponentials overflow": functools.partial(_overflow, row),
        "Old sums go wrong": functools.partial(_just_add, row, steps),
        "One pass": functools.partial(_one_pass, row, values, steps),
        "How often it is read": functools.partial(_passes, row, values, block),
    }
    parts("softmax_part", draws, "softmax_step", "softmax_reads")
    _links(steps)


def _input() -> tuple[np.ndarray, np.ndarray, int] | None:
    """The row, its values and the block size; None, after an error on the page, for a text that is no row."""
    left, beside, middle, right = st.columns([3, 3, 2, 3], vertical_alignment="bottom")
    take_from_url("softmax_x", EXAMPLES[0], str)
    text = left.text_input(
        "x, the scores of one row", key="softmax_x", on_change=keep_in_url, args=("softmax_x", EXAMPLES[0])
    )
    with right.container(horizontal=True):
        for example in EXAMPLES:
            put = ("softmax_x", example, EXAMPLES[0])
            st.button(f"[{example}]", on_click=put_in_url, args=put, disabled=text == example)
    of_values = beside.text_input(
        "v, one value for each score", key="softmax_v", bind="query-params", placeholder="if empty: 1, 2, …"
    )
    block = middle.number_input("block: scores at a time", 1, 64, 2, key="softmax_block", bind="query-params")
    try:
        row = parse_row(text)
        values = parse_row(of_values, "Values: ") if of_values.strip() else np.arange(1.0, len(row) + 1)
        if len(values) != len(row):
            raise UnreadableNumbers(
                f"Values: {len(values)} given for {len(row)} scores. Give one value for each score, or none "
                "for 1, 2, 3, …"
            )
    except UnreadableNumbers as error:
        st.error(plain(str(error)), icon=":material/error:")
        return None
    return row, values, max(1, int(block))


FORMULAS = {
    "x": r"\frac{e^{x_i}}{\sum_j e^{x_j}}",
    "x − m": r"\frac{e^{x_i - m}}{\sum_j e^{x_j - m}}, \quad m = \max_j x_j",
}


def _overflow(row: np.ndarray) -> None:
    WORDS.draw("overflow")
    options, limit = ("about 1000", "about e^1000, a large number", "∞"), lesson.largest_exponent("float32")
    ask(WORDS, "overflow question", "softmax_overflow", options, "∞", scores=EXAMPLES[1], limit=limit)
    number_format = switch("number format", lesson.FORMATS, "softmax_format", default="float32")
    largest = lesson.largest_exponent(number_format)
    st.caption(f"{number_format} holds exponentials up to e^{format_number(largest)}.")
    for column, (exponent, formula) in zip(st.columns(2, gap="large"), FORMULAS.items(), strict=True):
        result = lesson.softmax_in(row, number_format, subtract_max=exponent != "x")
        with column:
            st.latex(formula)
            verdict = f"in {number_format}, the sum is {format_number(float(result.total), 4)}."
            if result.fails:
                st.error(f"Fails {verdict}", icon=":material/close:")
            else:
                st.success(f"Works {verdict}", icon=":material/check:")
            columns = {exponent: (result.exponents, 6), f"e^({exponent})": (result.exponentials, 4)}
            columns["weight"] = (result.shares, 4)
            st.table(
                {
                    name: [format_number(value, digits) for value in values]
                    for name, (values, digits) in columns.items()
                }
            )


def _just_add(row: np.ndarray, steps: tuple[OnlineStep, ...]) -> None:
    WORDS.draw("just add")
    now = stepper("softmax_step", len(steps)) - 1
    right, wrong = lesson.softmax(row), lesson.unscaled_shares(steps)
    plot(figures.unscaled_figure(steps, now, colors()), key="softmax_unscaled")
    worst = int(np.abs(wrong - right).argmax())
    if now + 1 < len(steps):
        st.info("Go Forward to the last block: there it shows what goes wrong.", icon=":material/info:")
    elif abs(wrong[worst] - right[worst]) < 1e-12:
        st.info(WORDS("no harm"), icon=":material/info:")
    else:
        numbers = {"score": row[worst], "wrong": wrong[worst], "right": right[worst]}
        st.error(WORDS("wrong weights", sum=wrong.sum(), **numbers), icon=":material/close:")
    if now + 1 == len(steps) or any(step.alpha < 1 for step in steps[1 : now + 1]):
        WORDS.draw("repair", step=steps[now])  # the failure has been seen


def _one_pass(row: np.ndarray, values: np.ndarray, steps: tuple[OnlineStep, ...]) -> None:
    WORDS.draw("one pass")
    now = stepper("softmax_step", len(steps)) - 1
    step, all_y = steps[now], (0.0, *lesson.numerators(steps, values))
    before, y = all_y[now : now + 2]
    added = float(step.terms @ values[step.start : step.end])
    WORDS.draw(
        "block",
        row=figures.row_html(row, steps, now),
        sum=figures.sum_figure(steps, now, colors()),
        next=functools.partial(_next_block, row, values, steps, now),
        update=lambda: [st.latex(formula) for formula in update_tex(step)],
        step=step,
        before=before,
        added=added,
        y=y,
        o=y / step.l,
    )


def _next_block(row: np.ndarray, values: np.ndarray, steps: tuple[OnlineStep, ...], now: int) -> None:
    """What this block did, and m, alpha, l and Y of the next one to predict."""
    step = steps[now]
    say(update_words(step))
    if now + 1 == len(steps):
        difference = np.abs(lesson.online_shares(row, steps) - lesson.softmax(row)).max()
        st.success(WORDS("last block", difference=difference), icon=":material/check:")
        return
    following = steps[now + 1]
    its_values = values[following.start : following.end]
    numbers, weighed = (
        ", ".join(format_number(x, 6) for x in part) for part in (following.scores, its_values)
    )
    y, y_after = lesson.numerators(steps, values)[now : now + 2]
    added = float(following.terms @ its_values)
    type_in(
        f"softmax_{'_'.join(map(str, [*row, *values]))}_{following.start}_{now}",
        WORDS("next question", numbers=numbers, weighed=weighed, step=step, y=y),
        (*next_state(following), next_numerator(y, following, its_values)),
        WORDS("next answer", update=update_words(following), y=y, added=added, y_after=y_after),
    )


def _passes(row: np.ndarray, values: np.ndarray, block: int) -> None:
    runs = lesson.all_ways(row, block, values)

    def ways() -> None:
        reads = stepper("softmax_reads", len(runs["three passes"].known))
        st.html(figures.passes_html(runs, reads))

    WORDS.draw("passes", ways=ways)


def _links(steps: tuple[OnlineStep, ...]) -> None:
    """Links to Explore: as many key tiles as blocks, and a max that grows if it does on this row."""
    grows, blocks = any(step.alpha < 1 for step in steps[1:]), max(len(steps), 2)
    inputs, words = ("growing_max", "the max grows") if grows else ("falling_max", "the max comes first")
    problem = AttentionProblem(q_len=4, kv_len=4 * blocks, head_dim=16, block_m=4, block_n=4, inputs=inputs)
    links(
        (f"The same in the kernel: {blocks} blocks of keys, {words}", problem),
        ("Scores that overflow without the max", problem.with_(inputs="large", kv_len=32, q_len=32)),
    )
