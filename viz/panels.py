"""Panels of the Explore page: the run to show, the player, the measurement, the downloads."""

from __future__ import annotations

import functools

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.client import Cancelled, Job, JobFailure
from kernels.hardware import Gpu
from kernels.measure import Measurement, naive_peak_bytes
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.trace import Trace
from kernels.traffic import forward_flops
from viz import runs, theme
from viz.player.data import player_data
from viz.player.player import export_html, show_player

WAIT_S = 1.2
"""How long a page waits for a short job before it shows a progress bar instead."""


def current_run(
    store: runs.RunStore | None, backend: str, problem: AttentionProblem, algorithm: str, button_place: DeltaGenerator
) -> runs.Run | None:
    """The run to show: the shipped recording, or a live run, started here. None while there is none yet; says why."""
    recording = runs.recorded(problem, algorithm)
    if backend == "replay":
        if recording is None:
            st.info("Without Triton only the recorded problems can be shown. Choose one of them under “Start from”.", icon=":material/history:")
        return recording
    wanted = st.session_state.get("live_problem")
    if recording is not None and wanted != problem:
        help_words = f"Shown now: {recording.provenance}. This runs the kernel on the device at hand."
        if button_place.button("Run it here", icon=":material/play_arrow:", width="stretch", help=help_words):
            st.session_state["live_problem"] = problem
            st.rerun()
        return recording
    job = _live_job(store, backend, problem, algorithm)
    if job is None:
        return None
    if not job.wait(WAIT_S):
        _progress(store, job)
        return None
    return _finished(store, job)


def _live_job(store: runs.RunStore, backend: str, problem: AttentionProblem, algorithm: str) -> Job | None:
    job = store.peek("trace", problem, algorithm)
    if job is not None:
        return job
    seconds = runs.estimated_seconds(problem, backend)
    if seconds > runs.IMMEDIATE_S:
        st.info(f"This run takes about {seconds:,.0f} s here.", icon=":material/timer:")
        if not st.button("Run", type="primary", icon=":material/play_arrow:"):
            return None
    return store.trace(problem, algorithm)


def _finished(store: runs.RunStore, job: Job) -> runs.Run | None:
    try:
        return runs.finished_run(job)
    except (InvalidProblem, JobFailure) as error:
        (st.info if isinstance(error, Cancelled) else st.error)(str(error), icon=":material/error:")
        if st.button("Try again", icon=":material/refresh:"):
            store.forget(job)
            st.rerun()
        return None


@st.fragment(run_every=0.25)
def _progress(store: runs.RunStore, job: Job) -> None:
    """A bar that moves while the job runs, with a way to stop it."""
    if job.done:
        st.rerun()
    ahead = job.jobs_ahead
    words = f"{ahead} {'job' if ahead == 1 else 'jobs'} ahead in the queue" if ahead else job.label
    st.progress(min(job.fraction, 1.0), text=words)
    if st.button("Cancel", icon=":material/stop:", key=f"cancel-{id(job)}"):
        job.cancel()
        job.wait(5)
        st.rerun()


@functools.lru_cache(maxsize=16)
def _player_data(trace: Trace, provenance: str, gpu: Gpu) -> dict:
    return player_data(trace, provenance, gpu)


@st.fragment
def player_panel(run: runs.Run, gpu: Gpu) -> None:
    """The player, with its step in the URL. A fragment: a step that is remembered reruns this panel alone."""
    data = _player_data(run.trace, run.provenance, gpu)
    shown_before = st.session_state.get("player_run")
    if shown_before not in (None, data["id"]):
        st.query_params.pop("step", None)  # the step belonged to another run
    st.session_state["player_run"] = data["id"]
    place = st.query_params.get("step", "0")
    now = show_player(data, key="player", place=place)
    if now != place:
        st.query_params["step"] = now


def measurement_panel(store: runs.RunStore | None, backend: str, run: runs.Run) -> Measurement | None:
    """Time and memory of this problem: recorded with a recorded run, else measured here once the page is at rest."""
    if run.recorded:
        return runs.recorded_measure(run.trace.problem)
    problem = runs.measured_problem(run.trace.problem, backend)
    job = store.peek("measure", problem)
    if job is not None and job.done:
        try:
            return runs.finished_measurement(job)
        except (InvalidProblem, JobFailure) as error:
            st.warning(f"Not measured: {error}")
            if st.button("Measure again", icon=":material/refresh:"):
                store.forget(job)
                st.rerun()
            return None
    if job is None and backend != "cuda" and (naive_peak_bytes(problem) > 4e9 or forward_flops(problem) > 2e11):
        st.caption("Time and memory of a problem of this size take a while on a CPU.")
        if st.button("Measure here", icon=":material/speed:"):
            store.measurement(problem)
            st.rerun()
        return None
    _measuring(store, problem)
    return None


@st.fragment(run_every=0.7)
def _measuring(store: runs.RunStore, problem: AttentionProblem) -> None:
    """Asks for the measurement at its second turn, so that a quick change of the problem does not queue one for each value."""
    job = store.peek("measure", problem)
    if job is not None and job.done:
        st.rerun()
    if job is None and st.session_state.get("measure_next") == problem:
        job = store.measurement(problem)
    st.session_state["measure_next"] = problem
    st.caption(f"Time and memory: {job.label if job else 'about to be measured'} …")


def take_away(run: runs.Run, gpu: Gpu) -> None:
    """Downloads: the player as one file for a talk without a network, and the trace for one's own analysis."""
    problem = run.trace.problem
    name = f"{run.trace.algorithm}-{problem.q_len}x{problem.kv_len}-d{problem.head_dim}-{problem.dtype}-{problem.mask}"
    with st.container(horizontal=True):
        st.download_button(
            "Player as one HTML file",
            lambda: export_html(_player_data(run.trace, run.provenance, gpu)),
            f"{name}.html",
            "text/html",
            icon=":material/slideshow:",
            on_click="ignore",
            help="Opens in any browser without a network or a server.",
        )
        st.download_button(
            f"Trace (.npz, {theme.format_bytes(run.trace.output.nbytes + 4 * run.trace.row_max.nbytes)} or less)",
            lambda: run.trace.to_bytes(compress=True),
            f"{name}.npz",
            "application/octet-stream",
            icon=":material/download:",
            on_click="ignore",
            help="NumPy arrays, one entry a tile step; kernels.trace.Trace.load reads it.",
        )
