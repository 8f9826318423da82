"""The verdict of a case in words and cards, and the numbers behind it."""

import plotly.graph_objects as go
import streamlit as st

from kernels.algorithms import ALGORITHMS
from kernels.check.case.cases import UPLOADED
from kernels.check.report.report import ULP_LABELS, VERDICT_WORDS, error_row
from kernels.check.result import CheckResult, TensorCheck
from kernels.oracle.report import RULE
from kernels.problem import AttentionProblem
from viz.shared import runs, theme
from viz.shared.figures.charts import chart
from viz.shared.formats import format_error, plain
from viz.shared.layout import Card, colors, draw_cards, plot
from viz.shared.provenance import library_versions, runner_words

MARKS = {
    "pass": ("green", "check_circle"),
    "fail": ("red", "cancel"),
    "invalid": ("gray", "block"),
    "error": ("orange", "warning"),
}
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
    st.markdown(f"## :{color}[:material/{icon}: {VERDICT_WORDS[verdict]}]")


def verdict_panel(result: CheckResult) -> None:
    """PASSES or FAILS, why, and where the numbers are from."""
    verdict_title(result.verdict)
    st.markdown(f"**{plain(result.label)}**: {plain(result.reason)}.", help=RULE)
    if result.cause:
        st.markdown(f":material/troubleshoot: **Cause**: {plain(result.cause)}.", help=CAUSE_HELP)
    for finding in result.findings:  # faults in the kernel's use of memory
        st.markdown(f":material/bug_report: **{finding.kind.capitalize()}**: {plain(finding.words)}.")
        if finding.file:
            st.code(f"# {finding.place}\n{finding.source}", language="python", wrap_lines=True)
    if result.trace:
        st.code(result.trace, language="python", wrap_lines=True)
    problem = result.case.problem
    if not result.refused:  # a kernel that refused was not run
        inputs = f"{problem.inputs} inputs, seed {problem.seed}"
        tensors = "tensors of your file" if result.case.upload else inputs
        st.caption(f"**Measured** on {result.device.name}, {_run_by(result)}; {tensors}.")
    for note in (*result.notes, *([f"{result.keyless.words}."] if result.keyless else [])):
        st.caption(f":material/info: {plain(note)}")


def _run_by(result: CheckResult) -> str:
    """What ran the kernel, with its version. Kernels that are not in the registry run under both."""
    device, kernel = result.device, result.case.kernel
    if kernel in ALGORITHMS:
        return runner_words(ALGORITHMS[kernel], device)
    if kernel == UPLOADED:
        return f"a result from your file, judged with torch {device.torch}"
    how = "by Triton's interpreter, " if result.interpreted else "with "
    return f"{how}{library_versions(device)}"


def cards(result: CheckResult) -> None:
    """One card per tensor, and one for repeatability."""
    found = []
    for each in result.tensors:
        allowed = _allowed_words(each.passes, each.tolerance)
        words = f"{each.wrong_nonfinite:,} NaN or ∞" if each.wrong_nonfinite else allowed
        found.append(Card(f"{each.name} error", format_error(each.max_error), words, passes=each.passes))
    if (repeats := result.repeats) and repeats.runs > 1:
        differing = f"{sum(repeats.differing.values()):,} values, by up to {format_error(repeats.largest)}"
        verdict = ("equal", "bit by bit") if repeats.equal else ("differ", differing)
        found.append(Card(f"{repeats.runs} runs", *verdict, REPEATS_HELP, repeats.equal))
    draw_cards(found)


def _allowed_words(passes: bool, tolerance: float) -> str:
    return f"{'≤' if passes else 'FAILS: >'} {format_error(tolerance)}"


def numbers_panel(result: CheckResult) -> None:
    """The errors of each tensor, and those of O in units in the last place; nothing if none was compared."""
    if not result.tensors:
        return
    st.subheader("Errors and what is allowed", anchor="errors")
    st.dataframe([error_row(each, format_error) for each in result.tensors], hide_index=True, key="numbers")
    output = result.tensor("O")
    if output and sum(output.ulps):
        st.subheader("Units in the last place", anchor="ulps")
        plot(ulps_figure(output, colors()), key="ulps")


def ulps_figure(tensor: TensorCheck, colors: theme.Palette) -> go.Figure:
    """Share of the elements by how many units in the last place they are off."""
    kinds = (
        ("this kernel", colors.flash, tensor.ulps),
        ("low-precision reference", colors.standard, tensor.naive_ulps),
    )
    bars = [
        go.Bar(
            x=ULP_LABELS,
            y=[count / max(sum(counts), 1) for count in counts],
            customdata=counts,
            name=name,
            marker_color=color,
            hovertemplate="%{y:.2%} of the elements (%{customdata:,})<extra>" + name + "</extra>",
        )
        for name, color, counts in kinds
    ]
    x = {"title_text": "error in units in the last place", "type": "category"}
    y = {"tickformat": ".0%", "rangemode": "tozero"}
    return chart(bars, colors, 310, "", x, y, barmode="group", bargap=0.25)


def recorded_verdict(problem: AttentionProblem, backend: str, start_failure: str | None) -> None:
    """The recorded error report of this problem where nothing can be checked, and why (`start_failure`)."""
    if backend == "starting":
        # A recorded verdict here would look like that of the kernel that is about to be checked.
        st.markdown("## :gray[:material/hourglass_top: The worker process is starting …]")
        return
    why = f"The worker process does not start: {start_failure}" if start_failure else "Triton is missing"
    words = plain(f"{why}. Nothing can be checked here; recorded verdicts are shown.")
    st.info(words, icon=":material/history:")
    run = runs.recorded(problem, "flash2")
    if run is None or run.report is None:
        st.caption("No recording of this problem. Choose one under “Start from”.")
        return
    report = run.report
    verdict_title("pass" if report.passes else "fail")
    st.markdown(f"**{run.algorithm.label}**: {run.provenance}.", help=RULE)
    allowed = _allowed_words(report.passes, report.tolerance)
    error = Card("O error", format_error(report.max_error), allowed, passes=report.passes)
    others = {"O mean error": report.mean_error, "Naive error": report.naive_max_error}
    draw_cards([error, *(Card(label, format_error(value)) for label, value in others.items())])
