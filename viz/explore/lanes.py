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

KERNEL = "lanes_of"
"""Key of the choice of the kernel, in the session and in the URL."""
ALL = "all"
Kernels = tuple[LaneKernel, ...]


def lanes_of(store: runs.RunStore | None, backend: str, run: runs.Run) -> tuple[LanesRun, ...]:
    """Lanes of the run's algorithm, and of others on the same problem; none if its own has none.

    If its algorithm has several kernels with lanes, the reader chooses one. Of a run that was made here on a
    GPU they are measured once the reader asks for it. The choice, the button, the wait and a failure are
    shown where this is called.
    """
    problem, entry = run.trace.problem, run.algorithm
    if run.file or not entry.lanes:
        return ()
    recorded = {each.lanes.kernel: each for each in recorded_lane_runs(problem, entry.direction)}
    is_measured = backend == "cuda" and not (run.recorded or run.meanwhile)
    able = _able(store, problem, entry.direction) if store is not None and is_measured else ()
    there = tuple(each for each in entry.lanes if each in able or each.name in recorded)
    # What can run here comes first, in the order of the entry.
    chosen = _chosen(tuple(sorted(there, key=lambda each: able != () and each not in able)))
    if not chosen:
        if len(entry.lanes) > 1 and not run.meanwhile:
            _say_none(backend, run)
        return ()
    shown = [
        each for each in kernels_with_lanes(entry.direction) if each not in entry.lanes or each in chosen
    ]
    found = fastest_first(recorded[each.name] for each in shown if each.name in recorded)
    if store is not None and any(each in able for each in chosen):
        others = (recorded[each.name] for each in chosen if each not in able)
        measured = _measured_here(store, problem, [each for each in shown if each in able])
        found = fastest_first((*measured, *others)) if measured else found
    own = {each.name for each in chosen}
    return found if any(each.lanes.kernel in own for each in found) else ()


def _chosen(there: Kernels) -> Kernels:
    """One of the kernels of which there are lanes, or all of them, as the reader chose; at first the first.

    In the URL it has its name, on the page its label. There is no choice among fewer than two.
    """
    if len(there) < 2:
        return there
    words = {each.name: each.label for each in there} | {ALL: "Both" if len(there) == 2 else "All of them"}
    named = st.query_params.get(KERNEL)
    st.session_state[KERNEL] = named if named in words else there[0].name

    def take() -> None:
        st.query_params[KERNEL] = st.session_state[KERNEL]

    name = st.segmented_control(
        "Lanes of an SM: of which kernel",
        list(words),
        required=True,
        key=KERNEL,
        on_change=take,
        format_func=lambda name: words[name],
    )
    return there if name == ALL else tuple(each for each in there if each.name == name)


def _say_none(backend: str, run: runs.Run) -> None:
    """That there are no lanes to choose from, and how one gets some."""
    way = "The app measures them on an NVIDIA GPU."
    if backend == "cuda" and run.recorded:
        way = "They can be measured once the kernels ran here: use “Run it here”."
    st.caption(f"**Lanes of an SM**: none are recorded of this problem with these tiles. {way}")


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


def _able(store: runs.RunStore, problem: AttentionProblem, direction: str) -> Kernels:
    """The kernels with lanes that can run the problem on this machine."""
    device = store.client.device
    if device is None:
        return ()
    able = (
        each
        for each in kernels_with_lanes(direction)
        if each.refusal(problem, device.compute_capability) is None
    )
    return tuple(able)


def _ask(store: runs.RunStore, requests: list[LanesRequest]) -> None:
    for request in requests:
        store.start(request)


@functools.lru_cache(maxsize=runs.REMEMBERED)
def _measured_run(lanes: Lanes) -> LanesRun:
    return LanesRun(lanes, recorded=False)
