"""The lanes beside the run that Explore shows: recorded, or measured here if the run was."""

from __future__ import annotations

import functools

import streamlit as st

from kernels.algorithms import ALGORITHMS, lanes_refusal
from kernels.problem import AttentionProblem
from kernels.trace.algorithm import Algorithm
from kernels.trace.lanes import Lanes
from kernels.worker.requests import LanesRequest
from viz.player.lanes import LanesRun, fastest_first, recorded_lane_runs
from viz.shared import runs
from viz.shared.waiting import results_of


def lanes_of(store: runs.RunStore | None, backend: str, run: runs.Run) -> tuple[LanesRun, ...]:
    """Lanes of the run's algorithm, and of others on the same problem; none if its own has none.

    Of a run that was made here on a GPU they are measured once the reader asks for it; the button, the wait
    and a failure are shown where this is called.
    """
    problem, entry = run.trace.problem, run.algorithm
    if run.file or not entry.lanes:
        return ()
    found = recorded_lane_runs(problem, entry.direction)
    if store is not None and backend == "cuda" and not (run.recorded or run.meanwhile):
        found = _measured_here(store, problem, entry) or found
    return found if any(each.lanes.algorithm == entry.name for each in found) else ()


def _measured_here(store: runs.RunStore, problem: AttentionProblem, entry: Algorithm) -> tuple[LanesRun, ...]:
    names = _able(store, problem, entry.direction)
    if entry.name not in names:
        return ()
    requests = [LanesRequest(problem, name) for name in names]
    jobs = {request: job for request in requests if (job := store.peek(request)) is not None}
    if len(jobs) < len(requests):
        st.button(
            "Measure the lanes of an SM here",
            icon=":material/view_timeline:",
            help="Runs the kernels again, each with marks that say when its warps did what, and without.",
            on_click=_ask,
            args=(store, requests),
        )
        return ()
    return fastest_first(_measured_run(lanes) for lanes in results_of(store, jobs, "lanes").values())


def _able(store: runs.RunStore, problem: AttentionProblem, direction: str) -> list[str]:
    """Algorithms whose kernels set marks, and that take the problem on this machine."""
    device = store.client.device
    return [
        entry.name
        for entry in ALGORITHMS.values()
        if entry.lanes and entry.direction == direction and device is not None
        if lanes_refusal(entry, problem, device.compute_capability) is None
        if entry.with_lane_tiles(problem) == problem
    ]


def _ask(store: runs.RunStore, requests: list[LanesRequest]) -> None:
    for request in requests:
        store.start(request)


@functools.lru_cache(maxsize=runs.REMEMBERED)
def _measured_run(lanes: Lanes) -> LanesRun:
    return LanesRun(lanes, recorded=False)
