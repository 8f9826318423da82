"""Check: is this result right? One case in depth, or a battery of cases."""

from dataclasses import replace

import streamlit as st

from kernels.algorithms import ALGORITHMS, FIRST
from kernels.check.case import cases
from kernels.check.case.options import shell_command
from kernels.check.report.machine import to_json
from kernels.check.requests import CheckRequest, PlayRequest
from kernels.check.result import CheckResult
from kernels.check.subject.user_kernel import UserKernel
from kernels.problem import InvalidProblem
from kernels.trace.observed import NOT_SEEN
from kernels.worker.client import Job
from kernels.worker.requests import TraceRequest
from viz.check.battery import CheckContext, battery_panel
from viz.check.verdict import WORDS, cards, maps_panel, verdict_panel
from viz.player.component import duel_of, show_player
from viz.player.data import player_data
from viz.player.html_page import export_html
from viz.shared import runs
from viz.shared.formats import file_name, plain, problem_words
from viz.shared.layout import PLAYER, TRACE, download, header, segments
from viz.shared.link import forget, takes_from_link
from viz.shared.options import kernel_labels, named_kernels
from viz.shared.problem_form import PROBLEM_IN_LINK, gpu_of, problem_controls
from viz.shared.waiting import WAIT_S, asked_job, result_of, retry_button, show_progress

CONTROLS_IN_URL = ("kernel", "gradients", "repeats", "layout", "scale")
PLAYING = "played_kernel"
"""Key in the session of the request that the user wants to see."""


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
        played_panel(context, result)
        report_panel(context, result)


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


def played_panel(context: CheckContext, result: CheckResult) -> None:
    """A button that plays the kernel, and then the player."""
    if result.case.kernel not in cases.USERS or result.refused or result.broken or result.stopped:
        return
    st.subheader("Play it", anchor="play")
    if context.backend != "interpreter":
        st.caption("A compiled kernel cannot be watched. Start the app with TRITON_INTERPRET=1 to play it.")
        return
    if not result.interpreted:
        st.caption("It launched no Triton kernel, so there are no tiles to play.")
        return
    request = PlayRequest(result.case, context.version(result.case.kernel))
    if st.session_state.get(PLAYING) != request:
        once = replace(result.case, gradients=False, repeats=1)
        seconds = max(2 * cases.estimated_seconds(once, context.backend), 1)
        play, args = st.session_state.__setitem__, (PLAYING, request)
        st.button("Play it", icon=":material/play_arrow:", key="play-it", on_click=play, args=args)
        st.caption(WORDS("play", beside=ALGORITHMS[FIRST].label, seconds=seconds))
        return
    traced = result_of(context.store, context.store.job(request), "play")
    if traced:
        _show(context, runs.live_run(traced))


def _show(context: CheckContext, run: runs.Run) -> None:
    gpu = gpu_of(run.trace.device.name)
    st.caption(WORDS("played", trace=run.trace, not_seen=NOT_SEEN))
    if ours := _ours(context, run):
        show_player(duel_of(run, ours, gpu), "played", {})
    with st.container(horizontal=True):
        page = lambda: export_html(player_data(run.trace, run.provenance, gpu))  # noqa: E731
        download(PLAYER, page, "kernel.html", WORDS("alone"))
        download(TRACE, lambda: run.trace.to_bytes(compress=True), "kernel.npz", WORDS("trace"))


def _ours(context: CheckContext, run: runs.Run) -> runs.Run | None:
    """Our kernel on the same problem, with the tiles of the user's."""
    problem, entry = run.trace.problem, ALGORITHMS[FIRST]
    seconds = runs.estimated_seconds(problem, entry, context.backend)
    request, button = TraceRequest(problem, FIRST), f"Run {entry.label}"
    job = asked_job(context.store, request, seconds, button, key="ask-ours")
    traced = result_of(context.store, job, "ours")
    return runs.live_run(traced) if traced else None


def report_panel(context: CheckContext, result: CheckResult) -> None:
    """All numbers as JSON, and the command that repeats the check."""
    user = context.user(result.case.kernel)
    command = shell_command(result.case, user.given if user else "")
    named = user.function if user else result.case.kernel
    name = file_name(f"check {named} {problem_words(result.case.problem)}")
    download("Numbers as JSON", lambda: to_json([result], command), f"{name}.json")
    st.caption("The same from a shell, with the verdict as exit status:")
    st.code(command, language="bash", wrap_lines=True)


show()
