"""Check: is this result right? One case in depth, or a battery of cases."""

from dataclasses import replace

import streamlit as st

from kernels.check.case import cases
from kernels.check.requests import CheckRequest
from kernels.check.result import CheckResult
from kernels.check.subject.user_kernel import UserKernel
from kernels.problem import InvalidProblem
from kernels.worker.client import Job
from viz.check import further
from viz.check.battery import battery_panel
from viz.check.context import CheckContext
from viz.check.verdict import WORDS, cards, maps_panel, verdict_panel
from viz.shared import runs
from viz.shared.formats import plain
from viz.shared.layout import header, segments
from viz.shared.link import forget, takes_from_link
from viz.shared.options import kernel_labels, named_kernels
from viz.shared.problem_form import PROBLEM_IN_LINK, problem_controls
from viz.shared.waiting import WAIT_S, asked_job, retry_button, show_progress

CONTROLS_IN_URL = ("kernel", "gradients", "repeats", "layout", "scale")


def user_kernels() -> tuple[UserKernel, ...]:
    """The kernels that the command line named; what is wrong with a name is said here."""
    try:
        return tuple(named_kernels())
    except InvalidProblem as error:
        st.error(f"--kernel: {error}", icon=":material/error:")
        return ()


def kernel_controls(backend: str, users: tuple[UserKernel, ...]) -> tuple[str, bool, int]:
    """Name of the kernel, whether gradients count, and the number of runs; at the top of the sidebar."""
    names = cases.kernels_on(backend if backend == "cuda" else "interpreter", len(users))
    named = kernel_labels(users)
    forget("kernel", named.values())  # in the URL a kernel of the user has its label
    labels = {name: cases.KERNELS[name].label for name in names} | named
    with st.sidebar:
        kernel = st.selectbox(
            "Kernel to check",
            names,
            key="kernel",
            bind="query-params",
            help="\n".join(f"- **{name}**: {label}" for name, label in labels.items()),
            format_func=lambda name: named.get(name, name),
        )
        left, right = st.columns([3, 2], vertical_alignment="bottom")
        gradients = left.toggle("gradients", True, key="gradients", bind="query-params")
        repeats = right.number_input(
            "runs", 1, cases.MAX_REPEATS, 3, key="repeats", bind="query-params", help="compared bit by bit"
        )
        if not users:
            own = st.expander("A kernel of your own", key="own", on_change="rerun")
            for words, command in WORDS.cells("own kernel") if own.open else ():
                own.markdown(words)
                own.code(command, language=None, wrap_lines=True)
    return kernel, gradients, repeats


def layout_controls() -> tuple[str, float | None]:
    """How Q, K and V lie in memory, and the factor on the scores as entered, None for 1 / sqrt(head_dim)."""
    with st.sidebar.expander("Layout and scale"):
        about = WORDS("layout")
        layout = st.selectbox("layout", cases.LAYOUTS, key="layout", bind="query-params", help=about)
        scale = st.number_input(
            "scale",
            min_value=0.0,
            value=None,
            key="scale",
            bind="query-params",
            placeholder="1 / sqrt(head_dim)",
            help=WORDS("scale"),
        )
    return layout, scale


CHECKING = "## :gray[:material/hourglass_top: Checking …]"


def show() -> None:
    """Draw the page."""
    store = runs.run_store()
    backend = runs.backend(store)
    takes_from_link("view", *CONTROLS_IN_URL, *PROBLEM_IN_LINK.values(), "map")
    header("Is this result right?", store)
    users = user_kernels()
    kernel, gradients, repeats = kernel_controls(backend, users)
    problem, _ = problem_controls()
    first = "battery" if kernel in cases.USERS else "case"
    view = segments("View", ("case", "battery"), "view", first, label_visibility="collapsed")
    if problem is None:
        return
    if store is None or backend in ("starting", "replay"):
        _say_why_not(backend, store.client.start_failure if store else None)
        return
    context = CheckContext(store, backend, users)
    base = cases.CheckCase(problem, kernel, gradients, repeats)
    if view == "battery":
        battery_panel(context, base)
        return
    layout, scale = layout_controls()
    try:
        case = replace(base, layout=layout, scale=scale)
    except InvalidProblem as error:
        st.error(str(error), icon=":material/error:")
        return
    case_panels(context, case)


def _say_why_not(backend: str, start_failure: str | None) -> None:
    """Why nothing can be checked."""
    if backend == "starting":
        st.markdown("## :gray[:material/hourglass_top: The worker process is starting …]")
        return
    why = f"The worker process does not start: {start_failure}" if start_failure else "Triton is missing"
    words = f"{why}. Nothing can be checked here. Explore shows the recorded error of each recorded run."
    st.info(plain(words), icon=":material/history:")


def case_panels(context: CheckContext, case: cases.CheckCase) -> None:
    """Everything about one case once it is checked. Until then its slot is empty: no old verdict stays."""
    (request,) = context.checks(case)
    slot = st.empty()
    job = context.store.peek(request)
    if job is None or not job.done:
        slot.markdown(CHECKING)
    with slot.container():
        job = current_check(context, request)
        if job is None:
            return
        result = context.result(job, case)
        verdict_panel(result)
        if result.stopped or result.broken:
            retry_button(context.store, [job], "check-again")
        cards(result)
        maps_panel(result)
        for note in result.notes:  # what was held against what besides, and what was not
            st.caption(f":material/info: {plain(note)}")
        further.played_panel(context, result)
        further.report_panel(context, result)


def current_check(context: CheckContext, request: CheckRequest) -> Job[CheckResult] | None:
    """The check that has ended. It is None while there is none yet, and the page says why."""
    seconds = cases.estimated_seconds(request.case, context.backend)
    about, holder = f"This check takes about {seconds:,.0f} s here.", f"{runs.session_name()} check"
    job = asked_job(context.store, request, seconds, "Check", notice=about, key="ask-check", holder=holder)
    if job is not None and not job.wait(WAIT_S):
        st.markdown(CHECKING)
        show_progress((job,), "check")
        return None
    return job


show()
