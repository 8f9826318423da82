"""What a check can be asked beyond its verdict: its kernel played beside ours, a report."""

from dataclasses import replace

import streamlit as st

from kernels.algorithms import ALGORITHMS, FIRST
from kernels.check.case.cases import USERS, estimated_seconds
from kernels.check.case.options import shell_command
from kernels.check.report.machine import to_json
from kernels.check.requests import PlayRequest
from kernels.check.result import CheckResult
from kernels.trace.observed import NOT_SEEN
from kernels.worker.requests import TraceRequest
from viz.check.context import CheckContext
from viz.player.component import duel_of, show_player
from viz.player.data import player_data
from viz.player.html_page import export_html
from viz.shared import runs
from viz.shared.formats import file_name, problem_words
from viz.shared.layout import PLAYER, TRACE, download
from viz.shared.problem_form import gpu_of
from viz.shared.waiting import asked_job, result_of
from viz.shared.words import Words

WORDS = Words(__file__)
PLAYING = "played_kernel"
"""Key in the session of the request that the user wants to see."""


def played_panel(context: CheckContext, result: CheckResult) -> None:
    """A button that plays the kernel, and then the player."""
    if result.case.kernel not in USERS or result.refused or result.broken or result.stopped:
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
        seconds = max(2 * estimated_seconds(once, context.backend), 1)
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
