"""The verdict of a case in words and cards."""

from __future__ import annotations

import streamlit as st

from kernels.algorithms import ALGORITHMS
from kernels.check.cases import UPLOADED
from kernels.check.result import CheckResult, KeylessRows, Repeats, TensorCheck
from kernels.check.result_lines import told_apart
from kernels.check.summary import VERDICT_TITLES
from kernels.oracle.report import RULE
from kernels.sanitizer.finding import Finding
from viz.shared.formats import format_error, plain
from viz.shared.provenance import library_versions, runner_words

MARKS = {
    "pass": ("green", "check_circle"),
    "fail": ("red", "cancel"),
    "invalid": ("gray", "block"),
    "error": ("orange", "warning"),
}
"""Colour and icon of each verdict of a case."""
AXES = ("batch", "head", "row", "column")
CAUSE_HELP = (
    "The result equals this within the rule by which it does not equal attention. It was held against masks "
    "that are off by one, missing tiles, other scales and head groupings, missing rescalings, and others."
)
REPEATS_HELP = (
    "The kernel ran several times on the same inputs. Different bits mean atomics, a race, or memory that "
    "nobody wrote. They do not change the verdict."
)


def verdict_title(verdict: str) -> None:
    """The verdict in capitals, with its colour and icon."""
    color, icon = MARKS[verdict]
    st.markdown(f"## :{color}[:material/{icon}: {VERDICT_TITLES[verdict]}]")


def verdict_panel(result: CheckResult) -> None:
    """PASSES or FAILS, why, and where the numbers are from."""
    verdict_title(result.verdict)
    st.markdown(f"**{plain(result.label)}**: {plain(result.reason)}.", help=RULE)
    if result.cause:
        st.markdown(f":material/troubleshoot: **Cause**: {plain(result.cause)}.", help=CAUSE_HELP)
    for finding in result.findings:
        _finding(finding)
    if result.trace:
        st.code(result.trace, language="python", wrap_lines=True)
    device, problem = result.device, result.case.problem
    inputs = f"{problem.inputs} inputs, seed {problem.seed}"
    tensors = "tensors of your file" if result.case.upload else inputs
    if not result.refused:  # a kernel that refused was not run
        st.caption(f"**Measured**: {_run_by(result)} on {device.name}; {tensors}.")
    for note in result.notes:
        st.caption(f":material/info: {plain(note)}")
    if result.keyless:
        st.caption(f":material/info: {_keyless_words(result.keyless)}")


def _finding(finding: Finding) -> None:
    """One fault in the kernel's use of memory, with the line of the user's source."""
    kind = f"{finding.kind[0].upper()}{finding.kind[1:]}"
    st.markdown(f":material/bug_report: **{kind}**: {plain(finding.words)}.")
    if finding.file:
        st.code(f"# {finding.place}\n{finding.source}", language="python", wrap_lines=True)


def _run_by(result: CheckResult) -> str:
    """What ran the kernel, with its version. Kernels that are not in the registry run under both."""
    device, kernel = result.device, result.case.kernel
    if kernel in ALGORITHMS:
        return f"run {runner_words(ALGORITHMS[kernel], device)}"
    versions = library_versions(device)
    if kernel == UPLOADED:
        return f"a result from your file, judged with torch {device.torch}"
    return f"run by Triton's interpreter, {versions}," if result.interpreted else f"run with {versions},"


def _keyless_words(keyless: KeylessRows) -> str:
    wrong = {"O = 0": keyless.wrong_output, "lse = −∞": keyless.wrong_lse}
    if keyless.right:
        words = "all give O = 0 and lse −∞, as they must"
    else:
        lacks = [f"{count:,} of them do not give {what}" for what, count in wrong.items() if count]
        words = f":red[{', and '.join(lacks)}]"
    return f"{keyless.count:,} rows see no key: {words}."


def cards(result: CheckResult) -> None:
    """One card per tensor, and one for repeatability."""
    row = st.container(horizontal=True, gap="small", key="figures")
    for tensor in result.tensors:
        row.metric(
            f"{tensor.name} error",
            format_error(tensor.max_error),
            _allowed_words(tensor),
            delta_color="green" if tensor.passes else "red",
            delta_arrow="off",
            help=_error_help(tensor),
            border=True,
        )
    if result.repeats and result.repeats.runs > 1:
        row.metric(
            f"{result.repeats.runs} runs",
            "equal" if result.repeats.equal else "differ",
            _repeats_words(result.repeats),
            delta_color="green" if result.repeats.equal else "red",
            delta_arrow="off",
            help=REPEATS_HELP,
            border=True,
        )


def _allowed_words(tensor: TensorCheck) -> str:
    if tensor.wrong_nonfinite:
        return f"{tensor.wrong_nonfinite:,} NaN or ∞"
    return f"{'≤' if tensor.passes else 'FAILS: >'} {format_error(tensor.tolerance)}"


def _error_help(tensor: TensorCheck) -> str:
    reference = f"{format_error(tensor.naive_max_error)}, mean {format_error(tensor.naive_mean_error)}"
    return (
        f"Mean error {format_error(tensor.mean_error)}. Reference ({tensor.reference}): {reference}; "
        f"the error is {tensor.ratio:.2f} times as large. Largest error at {worst_words(tensor)}."
    )


def worst_words(tensor: TensorCheck) -> str:
    """Where the largest error of a tensor is, what the kernel gave there, and what is exact."""
    index = ", ".join(f"{axis} {number}" for axis, number in zip(AXES, tensor.worst, strict=False))
    value, exact = told_apart(tensor.worst_value, tensor.exact_value)
    return f"{index}: {value}, exact {exact}"


def _repeats_words(repeats: Repeats) -> str:
    if repeats.equal:
        return "bit by bit"
    return f"{sum(repeats.differing.values()):,} values, by up to {format_error(repeats.largest)}"
