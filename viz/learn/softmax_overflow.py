"""Part "Subtract the max" of the Softmax chapter: where exp overflows, and what mends it."""

from __future__ import annotations

import numpy as np
import streamlit as st

from kernels.lessons.numbers import parse_row
from kernels.lessons.softmax import FORMATS, InFormat, OnlineStep, exp_limits, softmax_in
from viz.learn.controls import switch
from viz.learn.figures.softmax_charts import overflow_figure
from viz.learn.predict import choose
from viz.shared.formats import format_number
from viz.shared.layout import colors, plot

EXAMPLES = ("3, 2, 5, 1", "1000, 999, 995")
"""The first is worked out by hand in "FlashAttention, step by step"; the second overflows."""


def overflow_part(row: np.ndarray, values: np.ndarray, steps: tuple[OnlineStep, ...], block: int) -> None:
    """Softmax in one number format, without and with the max subtracted."""
    st.markdown(
        "**Softmax** turns a row of scores x into positive weights that add up to 1: e^x, divided by the sum "
        "of all e^x of the row. But exp quickly exceeds what a number format can hold."
    )
    large = np.array(parse_row(EXAMPLES[1]))
    total = softmax_in(large, "float32", False).total
    choose(
        "softmax_overflow",
        f"The scores are {EXAMPLES[1]}. In float32, what is the sum of e^x?",
        ("about 1000", "about e^1000, a large number", "∞"),
        "∞",
        f"float32 ends at e^{format_number(exp_limits('float32')[1])}, so the sum is "
        f"{format_number(float(total))}, and each weight is ∞ / ∞, which is not a number (NaN). Subtract "
        "the largest score first: all exponents are then 0 or less, and the weights are the same, since "
        "e^(−m) cancels.",
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
