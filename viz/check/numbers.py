"""The numbers behind a verdict: errors beside what is allowed, units in the last place, and a table."""

from __future__ import annotations

import streamlit as st

from kernels.check.result import CheckResult, TensorCheck
from viz.check.figures.errors import errors_figure, ulps_figure
from viz.check.verdict import worst_words
from viz.shared.formats import format_error
from viz.shared.layout import colors, plot


def numbers_panel(result: CheckResult) -> None:
    """Two charts and the table; nothing if no tensor was compared."""
    if not result.tensors:
        return
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Errors and what is allowed", anchor="errors")
        plot(errors_figure(result, colors()), key="errors")
    output = result.tensor("O")
    with right:
        st.subheader("Units in the last place", anchor="ulps")
        if output and sum(output.ulps):
            plot(ulps_figure(output, colors()), key="ulps")
    st.dataframe([_row(tensor) for tensor in result.tensors], hide_index=True, key="numbers")


def _row(tensor: TensorCheck) -> dict[str, str]:
    return {
        "tensor": tensor.name,
        "verdict": "passes" if tensor.passes else "FAILS",
        "largest error": format_error(tensor.max_error),
        "allowed": format_error(tensor.tolerance),
        "mean error": format_error(tensor.mean_error),
        "reference": tensor.reference,
        "its largest": format_error(tensor.naive_max_error),
        "its mean": format_error(tensor.naive_mean_error),
        "error / reference": f"{tensor.ratio:.2f}",
        "wrong NaN, ∞": f"{tensor.wrong_nonfinite:,} of {tensor.elements:,}",
        "worst at": worst_words(tensor),
    }
