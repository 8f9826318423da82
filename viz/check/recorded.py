"""What the Check page shows if nothing can be run: the verdict that was recorded with a shipped run."""

from __future__ import annotations

import streamlit as st

from kernels.oracle.report import RULE
from kernels.problem import AttentionProblem
from viz.check.verdict import verdict_title
from viz.shared import runs
from viz.shared.formats import format_error, plain


def recorded_verdict(problem: AttentionProblem, backend: str, start_failure: str | None) -> None:
    """The recorded error report of this problem, and why there is no live check.

    `start_failure` says why the worker process did not start; None if it did, or if there is none.
    """
    if backend == "replay":
        why = (
            f"The worker process does not start: {start_failure}." if start_failure else "Triton is missing."
        )
        st.info(
            plain(f"{why} Nothing can be checked here; recorded verdicts are shown."),
            icon=":material/history:",
        )
    if backend == "starting":
        # A recorded verdict here would look like that of the kernel that is about to be checked.
        st.markdown("## :gray[:material/hourglass_top: The worker process is starting …]")
        return
    if run := runs.recorded(problem, "flash2"):
        _recorded_report(run)
    else:
        st.caption("No recording of this problem. Choose one under “Start from”.")


def _recorded_report(run: runs.Run) -> None:
    report = run.report
    if report is None:  # only a file of the user has none
        return
    verdict_title("pass" if report.passes else "fail")
    st.markdown(f"**{run.algorithm.label}**: {run.provenance}.", help=RULE)
    row = st.container(horizontal=True, gap="small", key="figures")
    row.metric(
        "O error",
        format_error(report.max_error),
        f"{'≤' if report.passes else 'FAILS: >'} {format_error(report.tolerance)}",
        delta_color="green" if report.passes else "red",
        delta_arrow="off",
        border=True,
    )
    row.metric("O mean error", format_error(report.mean_error), border=True)
    row.metric("Naive error", format_error(report.naive_max_error), border=True)
