"""Panels of the Explore page: the run to show, the player, the measurement, the downloads."""

from __future__ import annotations

import functools

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.algorithms import ALGORITHMS
from kernels.device.gpus import Gpu
from kernels.measure.measure import naive_peak_bytes
from kernels.measure.measurement import Measurement
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.tiles import count_tiles
from kernels.trace import Trace
from kernels.trace.perfetto import chrome_trace
from kernels.trace.schedule import program_spans, step_schedule
from kernels.traffic.modelled import forward_flops
from kernels.worker.client import Cancelled, Job, JobFailure
from viz.explore.figures.mask import mask_figure
from viz.explore.figures.timeline import busy_share, timeline_figure, without_pauses
from viz.player.component import export_html, show_player
from viz.player.data import duel_data, player_data
from viz.shared import runs
from viz.shared.layout import colors, plot

WAIT_S = 1.2
"""How long a page waits for a short job before it shows a progress bar instead."""


def current_run(
    store: runs.RunStore | None,
    backend: str,
    problem: AttentionProblem,
    algorithm: str,
    button_place: DeltaGenerator | None = None,
) -> runs.Run | None:
    """The run to show: the shipped recording, or a live run, started here. None while there is none yet; says why.

    `button_place` is where a recording offers to be run here; without one it does not.
    """
    recording = runs.recorded(problem, algorithm)
    if backend == "replay":
        if recording is None:
            _only_recordings(problem, algorithm)
        return recording
    live = st.session_state.setdefault("live_runs", set())
    if recording is not None and (problem, algorithm) not in live:
        help_words = f"Shown now: {recording.provenance}. This runs the kernel on the device at hand."
        if button_place and button_place.button(
            "Run it here", icon=":material/play_arrow:", width="stretch", help=help_words
        ):
            live.add((problem, algorithm))
            st.rerun()
        return recording
    job = _live_job(store, backend, problem, algorithm)
    if job is None:
        return None
    if not job.wait(WAIT_S):
        _progress(store, job)
        return None
    return _finished(store, job)


def _only_recordings(problem: AttentionProblem, algorithm: str) -> None:
    known = [ALGORITHMS[name].label for name in ALGORITHMS if runs.recorded(problem, name)]
    if known:
        words = f"{ALGORITHMS[algorithm].label} was not recorded for this problem. Recorded are: {', '.join(known)}."
    else:
        words = (
            "Without Triton only the recorded problems can be shown. Choose one of them under “Start from”."
        )
    st.info(words, icon=":material/history:")


def _live_job(store: runs.RunStore, backend: str, problem: AttentionProblem, algorithm: str) -> Job | None:
    job = store.peek("trace", problem, algorithm)
    if job is not None:
        return job
    seconds = runs.estimated_seconds(problem, ALGORITHMS[algorithm], backend)
    if seconds > runs.IMMEDIATE_S:
        st.info(f"This run takes about {seconds:,.0f} s here.", icon=":material/timer:")
        if not st.button("Run", type="primary", icon=":material/play_arrow:", key=f"run-{algorithm}"):
            return None
    return store.trace(problem, algorithm)


def _finished(store: runs.RunStore, job: Job) -> runs.Run | None:
    try:
        return runs.finished_run(job)
    except (InvalidProblem, JobFailure) as error:
        (st.info if isinstance(error, Cancelled) else st.error)(str(error), icon=":material/error:")
        if st.button("Try again", icon=":material/refresh:", key=f"again-{id(job)}"):
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


@functools.lru_cache(maxsize=8)
def _duel_data(first: runs.Run, second: runs.Run, gpu: Gpu) -> dict:
    return duel_data((first.trace, first.provenance), (second.trace, second.provenance), gpu)


@st.fragment
def duel_panel(first: runs.Run, second: runs.Run, gpu: Gpu) -> None:
    """Both runs side by side under one transport, with the place in the URL."""
    place = st.query_params.get("place", "steps:0")
    now = show_player(_duel_data(first, second, gpu), key="duel", place=place)
    if now != place:
        st.query_params["place"] = now


def measurement_panel(store: runs.RunStore | None, backend: str, run: runs.Run) -> Measurement | None:
    """Time and memory of this problem: recorded with a recorded run, else measured here once the page is at rest."""
    if run.recorded:
        return runs.recorded_measure(run.trace.problem)
    problem, direction = (
        runs.measured_problem(run.trace.problem, backend),
        run.algorithm.direction,
    )
    job = store.peek("measure", problem, direction)
    if job is not None and job.done:
        try:
            return runs.finished_measurement(job)
        except (InvalidProblem, JobFailure) as error:
            st.warning(f"Not measured: {error}")
            if st.button("Measure again", icon=":material/refresh:"):
                store.forget(job)
                st.rerun()
            return None
    if (
        job is None
        and backend != "cuda"
        and (naive_peak_bytes(problem, direction) > 4e9 or forward_flops(problem) > 2e11)
    ):
        st.caption("Time and memory of a problem of this size take a while on a CPU.")
        if st.button("Measure here", icon=":material/speed:"):
            store.measurement(problem, direction)
            st.rerun()
        return None
    _measuring(store, problem, direction)
    return None


@st.fragment(run_every=0.7)
def _measuring(store: runs.RunStore, problem: AttentionProblem, direction: str) -> None:
    """Asks for the measurement at its second turn, so that a quick change of the problem does not queue one for each value."""
    job = store.peek("measure", problem, direction)
    if job is not None and job.done:
        st.rerun()
    if job is None and st.session_state.get("measure_next") == (problem, direction):
        job = store.measurement(problem, direction)
    st.session_state["measure_next"] = (problem, direction)
    st.caption(f"Time and memory: {job.label if job else 'about to be measured'} …")


def _file_name(trace: Trace) -> str:
    problem = trace.problem
    return f"{trace.algorithm}-{problem.q_len}x{problem.kv_len}-d{problem.head_dim}-{problem.dtype}-{problem.mask}"


def take_away(run: runs.Run, gpu: Gpu) -> None:
    """Downloads: the player as one file for a talk without a network, the trace for one's own analysis, the timeline for Perfetto."""
    trace, name = run.trace, _file_name(run.trace)
    with st.container(horizontal=True):
        st.download_button(
            "Player as one HTML file",
            lambda: export_html(_player_data(trace, run.provenance, gpu)),
            f"{name}.html",
            "text/html",
            icon=":material/slideshow:",
            on_click="ignore",
            help="Opens in any browser without a network or a server.",
        )
        st.download_button(
            "Trace (.npz)",
            lambda: trace.to_bytes(compress=True),
            f"{name}.npz",
            "application/octet-stream",
            icon=":material/download:",
            on_click="ignore",
            help="NumPy arrays, one entry a tile step; kernels.trace.Trace.load reads it.",
        )
        st.download_button(
            "SM timeline for Perfetto (.json)",
            lambda: chrome_trace(trace, step_schedule(trace, run.algorithm, gpu.sm_count)),
            f"{name}.trace.json",
            "application/json",
            icon=":material/view_timeline:",
            on_click="ignore",
            help="Chrome trace format: open it at ui.perfetto.dev or in chrome://tracing.",
        )


def timeline_panel(run: runs.Run, gpu: Gpu) -> None:
    """Which program ran when on which SM, by the GPU's clock or as modelled."""
    schedule = step_schedule(run.trace, run.algorithm, gpu.sm_count)
    spans = without_pauses(program_spans(run.trace, schedule))
    count = run.trace.device.sm_count if schedule.measured else gpu.sm_count
    source = (
        f"**{'Recorded' if run.recorded else 'Measured'}** by the GPU's timer in the traced launch, which runs slower than an untraced one"
        if schedule.measured
        else f"**Modelled**: one program an SM of the {gpu.name}, in launch order, every tile step as long as the others"
    )
    busy = busy_share(spans, count)
    pauses = (
        " The pauses between the launches are left out."
        if schedule.measured and len(run.trace.kernels) > 1
        else ""
    )
    st.caption(
        f"{source}. {len(spans):,} programs on {len({s.sm for s in spans})} of {count} SMs; {100 * busy:.0f} % of the SMs' time in use.{pauses}"
    )
    plot(timeline_figure(spans, schedule, colors(), _kernels_by_key(run)), key="timeline")


def _kernels_by_key(run: runs.Run) -> frozenset[str]:
    """The kernels whose programs differ by the keys they take: a key tile that stays, or a part of the keys."""
    return frozenset(
        kernel.name for kernel in run.algorithm.kernels if kernel.stays == "kv_tile" or kernel.splits_keys
    )


def mask_panel(problem: AttentionProblem) -> None:
    """Full, partial and skipped tiles, and the share of the work that the mask saves."""
    counts = count_tiles(problem)
    everything = counts.visited + counts.skipped
    st.caption(
        f"**Counted** from the mask: {counts.full:,} full, {counts.partial:,} partial and {counts.skipped:,} skipped tiles in all heads. "
        f"Skipping saves {100 * counts.skipped / everything:.0f} % of the tiles; only partial ones are masked inside the kernel."
    )
    plot(mask_figure(problem, colors()), key="mask-tiles")
