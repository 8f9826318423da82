"""Check: is this result right? One case in depth, or a grid of cases."""

from __future__ import annotations

import streamlit as st

from kernels.check.cases import CheckCase, estimated_seconds
from kernels.check.result import CheckResult
from kernels.check.uploads import UploadFacts
from kernels.problem import AttentionProblem
from viz.check.beside_ours import beside_ours_panel
from viz.check.context import CheckContext
from viz.check.controls import kernel_controls, subject_control, upload_control, user_kernel
from viz.check.grid import grid_panel
from viz.check.maps import maps_panel
from viz.check.numbers import numbers_panel
from viz.check.recorded import recorded_verdict
from viz.check.report import report_panel
from viz.check.sensitivity import sensitivity_panel
from viz.check.verdict import cards, verdict_panel
from viz.shared import runs
from viz.shared.layout import header
from viz.shared.problem_form import problem_controls
from viz.shared.waiting import asked_job, result_of


def show() -> None:
    """Draw the page."""
    store = runs.run_store()
    backend = runs.backend(store)
    header("Is this result right?", store)
    user = user_kernel()
    kernel, gradients, repeats = kernel_controls(backend, user)
    problem, _ = problem_controls(backend)
    file, file_name, facts = upload_control()
    view = st.segmented_control(
        "View",
        ["case", "grid"],
        default="case",
        required=True,
        key="view",
        bind="query-params",
        label_visibility="collapsed",
    )
    if problem is None:
        return
    if store is None or backend in ("starting", "replay"):
        recorded_verdict(problem, backend)
        return
    context = CheckContext(store, backend, user, file, file_name)
    if view == "grid":
        grid_panel(context, CheckCase(problem, kernel, gradients, repeats))
    else:
        case_panels(context, _case(problem, kernel, gradients, repeats, facts))


def _case(
    problem: AttentionProblem, kernel: str, gradients: bool, repeats: int, facts: UploadFacts | None
) -> CheckCase:
    """The case that the widgets and the file describe: a file brings its own shape."""
    subject = subject_control(facts, kernel)
    if facts is None:
        return CheckCase(problem, subject, gradients, repeats)
    return CheckCase(facts.problem(problem), subject, gradients, repeats, facts.digest)


def case_panels(context: CheckContext, case: CheckCase) -> None:
    """Everything about one case, once it has been checked."""
    result = current_check(context, case)
    if result is None:
        return
    verdict_panel(result)
    cards(result)
    maps_panel(result)
    numbers_panel(result)
    sensitivity = sensitivity_panel(context, result)
    beside_ours_panel(context, result)
    report_panel(context, result, sensitivity)


def current_check(context: CheckContext, case: CheckCase) -> CheckResult | None:
    """The result of the case. It is None while there is none yet, and the page says why."""
    seconds = estimated_seconds(case, context.backend)
    notice = f"This check takes about {seconds:,.0f} s here."
    job = asked_job(
        context.store,
        context.check(case),
        seconds,
        "Check",
        notice=notice,
        blob=context.file,
        key="ask-check",
    )
    return result_of(context.store, job, "check") if job else None


show()
