"""The lanes beside the run that Explore shows: recorded, or measured here if the run was."""

from __future__ import annotations

import functools

import streamlit as st

from kernels.algorithms import kernels_with_lanes
from kernels.problem import AttentionProblem
from kernels.trace.lane_kernel import LaneKernel
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
    problem, own = run.trace.problem, run.algorithm.lanes
    if run.file or own is None:
        return ()
    found = recorded_lane_runs(problem, run.algorithm.direction)
    if store is not None and backend == "cuda" and not (run.recorded or run.meanwhile):
        able = _able(store, problem, run.algorithm.direction)
        found = (_measured_here(store, problem, able) if own in able else ()) or found
    return found if any(each.kernel is own for each in found) else ()


def _measured_here(
    store: runs.RunStore, problem: AttentionProblem, kernels: list[LaneKernel]
) -> tuple[LanesRun, ...]:
    requests = [LanesRequest(problem, each.name) for each in kernels]
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


def _able(store: runs.RunStore, problem: AttentionProblem, direction: str) -> list[LaneKernel]:
    """The kernels with lanes that can run the problem on this machine."""
    device = store.client.device
    return [
        each
        for each in kernels_with_lanes(direction)
        if device is not None and each.refusal(problem, device.compute_capability) is None
    ]


def _ask(store: runs.RunStore, requests: list[LanesRequest]) -> None:
    for request in requests:
        store.start(request)


@functools.lru_cache(maxsize=runs.REMEMBERED)
def _measured_run(lanes: Lanes) -> LanesRun:
    return LanesRun(lanes, recorded=False)
