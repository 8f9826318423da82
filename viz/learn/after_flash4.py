"""FlashAttention-4 in the last chapter: clocks of the units, late rescales, exponentials by polynomial."""

from __future__ import annotations

import streamlit as st

from kernels.lessons import late_rescale
from kernels.problem import AttentionProblem
from kernels.references import reference
from viz.learn.after_units import cards, clocks_panel, predict_faster_products
from viz.learn.controls import choice, slider
from viz.learn.figures.after import exp2_figure, late_rescale_figure
from viz.shared import theme
from viz.shared.formats import format_error, significant
from viz.shared.glossary import say
from viz.shared.layout import explore_link, plot

INPUTS = ("normal", "growing_max", "large")


def flash4_panel(palette: theme.Palette) -> None:
    """Which unit sets the limit; folded, the late rescale, the polynomial, and what else changed."""
    say(
        "FlashAttention-4 was designed for the GPUs of the generation Blackwell, such as the B200. Their "
        "[[tensor cores]] multiply twice as fast as those of the H100; the other units of an [[SM]] are as "
        "fast as before. Does that make attention twice as fast?"
    )
    clocks_panel(palette, "after_units", 64, polynomial=True, predict=predict_faster_products)
    with st.expander("Rescale late: fewer rescales, the same output"):
        _late_rescale(palette)
    with st.expander("2ˣ by a polynomial, without the unit for exponentials"):
        _exp2(palette)
    with st.expander("What else FlashAttention-4 changes, and what its authors report"):
        _changes()


def _changes() -> None:
    """The paper's points and its speeds."""
    cards(
        {
            "The tensor cores are twice as fast": "The exponential units and the shared memory are not, "
            "so they can limit the speed.",
            "Fewer operations beside the products": "Other units compute some exponentials by a "
            "polynomial, and a rescale waits until the max has grown enough.",
            "Backward": "Tensor memory and pairs of thread blocks reduce shared-memory traffic "
            "and atomic adds.",
            "Reported on the B200": "Up to 1613 TFLOP/s in bfloat16, 71 % of the peak: 1.3 × [[cuDNN]] 9.13, "
            "2.7 × [[Triton]] (abstract; their announcement says 1605).",
        }
    )
    st.caption(f"For Blackwell. {reference('Zadouri et al. 2026').full}.")


def _late_rescale(palette: theme.Palette) -> None:
    """How many rescales each threshold saves."""
    say(
        "A rescale takes time, and most rescales hardly change anything. So the old [[row max|m]] is kept "
        "until the largest score exceeds it by more than a threshold. Only then are the old sums "
        "multiplied by [[rescale factor|α]]. Below: how many rescales each threshold leaves."
    )
    thresholds = late_rescale.THRESHOLDS
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        inputs = choice("Inputs", INPUTS, "growing_max", "after_inputs", 150)
        threshold = slider("Threshold, powers of two", thresholds, 8, "after_threshold", width=260)
    problem = AttentionProblem(q_len=128, kv_len=2048, head_dim=64, inputs=inputs)
    results = [late_rescale.late_rescale(problem, step) for step in thresholds]
    plot(late_rescale_figure(results, threshold, palette), key="after_rescales")
    chosen = results[thresholds.index(threshold)]
    grown = f"{significant(chosen.largest_weight)} instead of 1" if chosen.largest_weight > 1 else "1"
    st.markdown(
        f"{chosen.rescales:,} rescales of {chosen.row_steps:,}. Weights grow up to {grown}, and the output "
        f"is off by :green-badge[{format_error(chosen.largest_error)}] (measured, float64): whatever max is "
        "kept, it cancels in the division at the end. FlashAttention-4 uses 2⁸ for 16-bit inputs."
    )
    explore_link("Watch the rescale factor alpha", problem)


def _exp2(palette: theme.Palette) -> None:
    """How close a polynomial comes to 2^x."""
    say(
        "Exponentials have a unit of their own, which can become the limit. A polynomial needs only "
        "multiplications and additions, which other units can do. How exact must it be? Choose its degree."
    )
    degree = st.slider("Degree", 1, 6, 3, key="after_degree", bind="query-params")
    x, error = late_rescale.exp2_errors(degree)
    plot(exp2_figure(x, error, degree, palette), key="after_exp2")
    st.markdown(
        f"Largest relative error :violet-badge[{format_error(abs(error).max())}] (measured, float64). P is "
        "then rounded to 16 bits, which changes it by up to "
        f"{format_error(late_rescale.ROUNDING['bfloat16'])} in bfloat16. The integer part of x only changes "
        "the exponent."
    )
