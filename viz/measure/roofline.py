"""The roofline panel: the ceilings of a device, measured and by its datasheet, with calls under them."""

from __future__ import annotations

import streamlit as st

from kernels.measure.counters import CounterRun
from kernels.measure.roofline import RoofPoint, counter_points, roofs, timed_points
from kernels.measure.series import PeerCurve
from kernels.problem import AttentionProblem
from kernels.worker.failures import FAILURES
from kernels.worker.requests import CeilingsRequest
from viz.measure import live
from viz.measure.controls import Choice
from viz.measure.figures.roofline import roofline_figure
from viz.measure.gaps import unmarked_words
from viz.measure.sources import HERE, Source
from viz.shared import runs
from viz.shared.formats import plain
from viz.shared.layout import colors, plot
from viz.shared.waiting import job_words

EXPLAINED = (
    "Left of a roof's corner the memory limits the speed, right of it the matrix units. Each mark is a call "
    "at its FLOP per byte: a filled circle uses **requested** bytes (counted), a diamond **DRAM** bytes "
    "(recorded by hardware counters), a ring **modelled** bytes (those of the torch operations or of S and P "
    "for naive attention, compulsory bytes for fused ones). A line joins circle or ring and diamond of one "
    "call: if the diamond lies further right, caches served the difference. A measured roof is what one copy "
    "and one matrix product of torch reached, on random numbers. It is not a limit of the device, so a mark "
    "may lie above it; a circle may also because caches served its bytes."
)


def roofline_panel(
    store: runs.RunStore | None, backend: str, shown: list[Source], curves: list[PeerCurve], choice: Choice
) -> None:
    """One device at a time: points of different devices do not belong under one roof."""
    sources = {source.name: source for source in shown if source.device is not None}
    if not sources:
        st.caption("Nothing is measured yet.")
        return
    names = list(sources)
    name = names[0]
    if len(names) > 1:
        name = st.segmented_control(
            "Device",
            names,
            default=names[0],
            required=True,
            key="roof",
            bind="query-params",
            label_visibility="collapsed",
        )
    source = sources.get(name, sources[names[0]])
    found = "measured" if source.name == HERE else "recorded"
    lines = roofs(source.document.ceilings, source.device, source.dtype or choice.view.dtype, found)
    points = source_points(source, curves, choice)
    st.caption(f"{source.words[0].upper()}{source.words[1:]}. {EXPLAINED}")
    if source.name == HERE:
        _ceilings_button(store, backend, source)
    if lines or points:
        plot(roofline_figure(lines, points, colors()), key="roofline")
    if missing := unmarked_words(source, points, choice):
        st.caption(missing)


def source_points(source: Source, curves: list[PeerCurve], choice: Choice) -> list[RoofPoint]:
    """Points of a source's first device.

    Calls with hardware counters come first. Each other peer has its timed call at the same length, or at the
    largest x.
    """
    if source.device is None:
        return []
    device = source.device.name  # versions may differ between the parts of a recording
    counted = [
        run
        for run in source.document.counters
        if run.device.name == device
        and run.direction in choice.directions
        and run.peer in choice.peers
        and (run.problem.head_dim, run.problem.mask) == (choice.view.head_dim, choice.view.mask)
    ]
    points = counter_points(counted)
    drawn = {(point.peer, point.direction) for point in points}
    problems = _problems_beside(counted, [curve for curve in curves if curve.source == source.name])
    for measurement in source.document.measurements:
        if measurement.problem in problems and measurement.device.name == device:
            for point in timed_points(measurement, choice.directions):
                if point.peer in choice.peers and (point.peer, point.direction) not in drawn:
                    drawn.add((point.peer, point.direction))
                    points.append(point)
    return points


def _problems_beside(counted: list[CounterRun], curves: list[PeerCurve]) -> set[AttentionProblem]:
    """The problems at the length of the counter runs, or at the largest x if none was measured there."""
    lengths = {run.problem.q_len for run in counted}
    measured = [point for curve in curves for point in curve.measured]
    candidates = [point for point in measured if point.problem.q_len in lengths] or measured
    largest = max((point.x for point in candidates), default=None)
    return {point.problem for point in candidates if point.x == largest}


def _ceilings_button(store: runs.RunStore | None, backend: str, source: Source) -> None:
    """The button that measures the ceilings of this machine's device for the rest of the session."""
    if store is None or backend in live.NO_DEVICE:
        return
    if st.session_state.get("ceilings_job") is not None:
        _await_ceilings(store)
        return
    if failure := st.session_state.get("ceilings_failure"):
        st.warning(plain(f"The ceilings were not measured: {failure}"), icon=":material/error:")
    again = (
        "Measure the ceilings again" if source.document.ceilings else "Measure the ceilings of this device"
    )
    st.button(again, icon=":material/straighten:", on_click=_ask_for_ceilings, args=(store,))


def _ask_for_ceilings(store: runs.RunStore) -> None:
    st.session_state["ceilings_job"] = store.job(CeilingsRequest())
    st.session_state["ceilings_failure"] = None


@st.fragment(run_every=0.5)
def _await_ceilings(store: runs.RunStore) -> None:
    """Wait for the ceilings without redrawing the page, then keep them, or the reason why there are none."""
    job = st.session_state.get("ceilings_job")
    if job is None:
        return
    if not job.done:
        st.caption(f"{job_words(job)} …")
        return
    st.session_state["ceilings_job"] = None
    store.forget(job)
    try:
        live.keep_ceilings(job.result())
    except FAILURES as error:
        st.session_state["ceilings_failure"] = str(error)
    st.rerun()
