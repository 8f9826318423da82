"""Check: is this result right? One case in depth, or a grid of cases."""

from dataclasses import replace

import streamlit as st

from kernels.check.case.cases import USERS, CheckCase, estimated_seconds
from kernels.check.files.uploads import UploadFacts
from kernels.check.report.report import Report
from kernels.check.requests import CheckRequest
from kernels.check.result import CheckResult
from kernels.problem import InvalidProblem
from kernels.worker.client import Job
from viz.check.context import CheckContext
from viz.check.controls import (
    CONTROLS_IN_URL,
    kernel_controls,
    layout_controls,
    subject_control,
    upload_control,
    user_kernels,
)
from viz.check.further import (
    beside_ours_panel,
    determinism_panel,
    let_variations_go,
    report_panel,
    sensitivity_panel,
)
from viz.check.grid import GRID_IN_URL, battery_panel, grid_panel
from viz.check.maps import maps_panel
from viz.check.played import played_panel
from viz.check.verdict import cards, numbers_panel, recorded_verdict, verdict_panel
from viz.shared import runs
from viz.shared.layout import header, segments
from viz.shared.link import takes_from_link
from viz.shared.problem_form import GPU, PROBLEM_IN_LINK, problem_controls
from viz.shared.waiting import WAIT_S, asked_job, retry_button, show_progress

ONE_CASE = (
    ":material/info: This is one case. The battery, above, has lengths that do not fill their last tile, "
    "windows, rows without a key, and more."
)
CHECKING = ":gray[:material/hourglass_top: Checking …]"


def show() -> None:
    """Draw the page."""
    store = runs.run_store()
    backend = runs.backend(store)
    takes_from_link("view", *CONTROLS_IN_URL, *PROBLEM_IN_LINK.values(), GPU, *GRID_IN_URL, "map", "tile")
    header("Is this result right?", store)
    users = user_kernels()
    kernel, gradients, repeats = kernel_controls(backend, users)
    problem, _ = problem_controls()
    file = upload_control()
    view = segments("View", ("case", "battery", "grid"), "view", label_visibility="collapsed")
    if problem is None:
        return
    if store is None or backend in ("starting", "replay"):
        recorded_verdict(problem, backend, store.client.start_failure if store else None)
        return
    context = CheckContext(store, backend, users, file.data, file.name)
    base = CheckCase(problem, kernel, gradients, repeats)
    if view == "grid":
        grid_panel(context, base)
    elif view == "battery":
        battery_panel(context, base)
    elif file.name and file.facts is None:  # what is wrong with it has been said
        st.caption("Nothing is checked until the file is taken or removed.")
    elif case := _case(base, file.facts):
        case_panels(context, case)


def _case(base: CheckCase, facts: UploadFacts | None) -> CheckCase | None:
    """The case of the widgets, or of the file, which brings its own shape; None after saying why."""
    subject = subject_control(facts, base.kernel)
    if facts is None:
        layout, scale = layout_controls()
        try:
            return replace(base, kernel=subject, layout=layout, scale=scale)
        except InvalidProblem as error:
            st.error(str(error), icon=":material/error:")
            return None
    problem = facts.problem(base.problem)
    return replace(base, problem=problem, kernel=subject, upload=facts.digest, axes=facts.axes)


def case_panels(context: CheckContext, case: CheckCase) -> None:
    """Everything about one case once it is checked. Until then its slot is empty: no old verdict stays."""
    slot = st.empty()
    (request,) = context.checks(case)
    job = context.store.peek(request)
    if job is None or not job.done:
        slot.markdown(f"## {CHECKING}")
    with slot.container():
        job = current_check(context, request)
        if job is not None:
            _panels(context, context.result(job, case), job)


def _panels(context: CheckContext, result: CheckResult, job: Job[CheckResult]) -> None:
    verdict_panel(result)
    if result.verdict == "pass" and result.case.kernel in USERS:
        st.caption(ONE_CASE)
    if result.stopped or result.broken:
        retry_button(context.store, [job], "check-again")
    cards(result)
    maps_panel(result)
    numbers_panel(result)
    sensitivity = sensitivity_panel(context, result)
    beside_ours_panel(context, result)
    determinism = determinism_panel(context, result)
    played_panel(context, result)
    report_panel(context, Report(result, sensitivity, determinism))


def current_check(context: CheckContext, request: CheckRequest) -> Job[CheckResult] | None:
    """The check that has ended. It is None while there is none yet, and the page says why."""
    seconds = estimated_seconds(request.case, context.backend)
    job = asked_job(
        context.store,
        request,
        seconds,
        "Check",
        notice=f"This check takes about {seconds:,.0f} s here.",
        blob=context.file,
        key="ask-check",
        holder=f"{runs.session_name()} check",
    )
    if job is not None and not job.done:
        let_variations_go(context)
    if job is not None and not job.wait(WAIT_S):
        st.markdown(f"## {CHECKING}")
        show_progress((job,), "check")
        return None
    return job


show()
