"""Time and memory of the problem that Explore shows: recorded, or measured here once the page is at rest."""

from __future__ import annotations

import streamlit as st

from kernels.measure.measure import naive_peak_bytes
from kernels.measure.measurement import Measurement
from kernels.problem import AttentionProblem
from kernels.recordings import recorded_measurement
from kernels.traffic.modelled import forward_flops
from kernels.worker.requests import MeasureRequest
from viz.shared import runs
from viz.shared.waiting import job_words, result_of

LONG_ON_A_CPU = {"bytes": 2e9, "flops": 1e11}
"""Naive attention beyond either is measured on a CPU only after a click: it runs seven times."""
POLL_S = 0.7


def measurement_of(store: runs.RunStore | None, backend: str, run: runs.Run) -> Measurement | None:
    """The measurement; None if there is none yet, and the page says why."""
    if run.recorded or store is None:
        return recorded_measurement(run.trace.problem)
    problem = runs.measured_problem(run.trace.problem, backend)
    request = MeasureRequest(problem, (run.algorithm.direction,))
    job = store.peek(request)
    if job is not None and job.done:
        return result_of(store, job, "measurement")
    if job is None and backend != "cuda" and _takes_long(problem, run.algorithm.direction):
        st.caption("Time and memory of a problem of this size take a while on a CPU.")
        st.button("Measure here", icon=":material/speed:", on_click=store.start, args=(request,))
        return None
    _measure(store, request)
    return None


def _takes_long(problem: AttentionProblem, direction: str) -> bool:
    too_large = naive_peak_bytes(problem, direction) > LONG_ON_A_CPU["bytes"]
    every_score = problem.with_(mask="full")  # naive attention computes what the mask hides too
    return too_large or forward_flops(every_score) > LONG_ON_A_CPU["flops"]


@st.fragment(run_every=POLL_S)
def _measure(store: runs.RunStore, request: MeasureRequest) -> None:
    """Ask at the second turn, so that quick changes of the problem do not queue a measurement each."""
    job = store.peek(request)
    if job is not None and job.done:
        st.rerun()
    if job is None and st.session_state.get("measure_next") == request:
        job = store.job(request)
    st.session_state["measure_next"] = request
    st.caption(f"Time and memory: {job_words(job) if job else 'about to be measured'} …")
