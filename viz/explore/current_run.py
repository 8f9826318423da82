"""The run that Explore shows: the shipped recording, or one that the worker makes here."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.algorithms import ALGORITHMS
from kernels.problem import AttentionProblem
from kernels.worker.requests import TraceRequest
from viz.shared import runs
from viz.shared.waiting import asked_job, result_of


def current_run(
    store: runs.RunStore | None,
    backend: str,
    problem: AttentionProblem,
    algorithm: str,
    button_place: DeltaGenerator | None = None,
) -> runs.Run | None:
    """The run to show; None if there is none yet, and the page says why.

    `button_place` is where a recording offers to be run here; if it is None, no recording does.
    """
    recording = runs.recorded(problem, algorithm)
    if store is None or backend == "replay":
        if recording is None:
            _only_recordings(problem, algorithm)
        return recording
    live = st.session_state.setdefault("live_runs", set())
    if recording is None or (problem, algorithm) in live:
        return _live_run(store, backend, problem, algorithm)
    if button_place and button_place.button(
        "Run it here",
        icon=":material/play_arrow:",
        width="stretch",
        help=f"Shown now: {recording.provenance}. This runs the kernel on the device at hand.",
    ):
        live.add((problem, algorithm))
        st.rerun()
    return recording


def _only_recordings(problem: AttentionProblem, algorithm: str) -> None:
    known = [entry.label for entry in ALGORITHMS.values() if runs.recorded(problem, entry.name)]
    if known:
        label = ALGORITHMS[algorithm].label
        words = f"There is no recording of {label} for this problem. Recorded are: {', '.join(known)}."
    else:
        words = "Without Triton, only recorded problems can be shown. Choose one of them under “Start from”."
    st.info(words, icon=":material/history:")


def _live_run(
    store: runs.RunStore, backend: str, problem: AttentionProblem, algorithm: str
) -> runs.Run | None:
    seconds = runs.estimated_seconds(problem, ALGORITHMS[algorithm], backend)
    notice = f"This run takes about {seconds:,.0f} s here."
    request = TraceRequest(problem, algorithm)
    job = asked_job(store, request, seconds, "Run", notice=notice, key=f"run-{algorithm}")
    traced = result_of(store, job, f"trace-{algorithm}") if job else None
    return runs.live_run(traced) if traced else None
