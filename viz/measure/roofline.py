"""The roofline panel: the ceilings of a device, measured and by its datasheet, with calls under them."""

from dataclasses import replace

import streamlit as st

from kernels.measure.counters import CounterRun
from kernels.measure.roofline import RoofPoint, counter_points, roofs, timed_points
from kernels.measure.series import PeerCurve
from kernels.problem import AttentionProblem
from kernels.worker.requests import CeilingsRequest
from viz.measure import live
from viz.measure.charts import missing_peers
from viz.measure.controls import Choice
from viz.measure.figures import roofline_figure
from viz.measure.sources import HERE, Source
from viz.shared import runs
from viz.shared.formats import plain
from viz.shared.layout import colors, plot, segments
from viz.shared.waiting import asked_job, result_of, retry_button

CEILINGS_S = 10.0
"""About what the ceilings of a device take."""
EXPLAINED = (
    "Left of a roof's corner the memory limits the speed, right of it the matrix units. Each mark is a call "
    "at its FLOP per byte: a filled circle by **requested** bytes (counted), a diamond by **DRAM** bytes "
    "(recorded by hardware counters), a ring by **modelled** bytes (with S and P for naive attention, "
    "compulsory bytes for fused ones). A line joins the marks of one call: if the diamond lies further "
    "right, caches served the difference. A measured roof is what one copy and one product of torch reached "
    "on random numbers. It is not a limit: a mark may lie above it, a circle also because caches served its "
    "bytes."
)


def roofline_panel(
    store: runs.RunStore | None, backend: str, shown: list[Source], curves: list[PeerCurve], choice: Choice
) -> None:
    """One device at a time: points of different devices do not belong under one roof."""
    sources = {source.name: source for source in shown if source.device is not None}
    if not sources:
        st.caption("Nothing is measured yet.")
        return
    name = segments("Device", tuple(sources), "roof", label_visibility="collapsed")
    source = sources.get(name) or next(iter(sources.values()))
    found = "measured" if source.name == HERE else "recorded"
    document, dtype = source.document, source.dtype or choice.view.dtype
    lines = roofs(document.ceilings, document.devices[0], dtype, found)
    points = source_points(source, curves, choice)
    st.caption(f"**{source.name}**: {source.words}. {EXPLAINED}")
    if source.name == HERE:
        _ceilings(store, backend)
    if lines or points:
        plot(roofline_figure(lines, points, colors()), key="roofline")
    if missing := missing_peers(source, {(point.peer, point.direction, 0) for point in points}, choice):
        st.caption(plain(f"Without a mark, because not timed on the problem shown: {missing}."))


def source_points(source: Source, curves: list[PeerCurve], choice: Choice) -> list[RoofPoint]:
    """Points of a source's first device: calls with hardware counters, and timed calls of the other peers."""
    device = source.document.devices[0].name  # versions may differ between the parts of a recording
    wanted = (device, choice.view.head_dim, choice.view.mask)
    counted = [
        run
        for run in source.document.counters
        if (run.device.name, run.problem.head_dim, run.problem.mask) == wanted
        and run.direction in choice.directions
        and run.peer in choice.peers
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
    measured = [point for curve in curves for point in curve.points if point.result.timing]
    candidates = [point for point in measured if point.problem.q_len in lengths] or measured
    largest = max((point.x for point in candidates), default=None)
    return {point.problem for point in candidates if point.x == largest}


def _ceilings(store: runs.RunStore | None, backend: str) -> None:
    """Measure the ceilings of this machine's device, for the rest of the session."""
    if store is None or backend in live.NO_DEVICE:
        return
    button = "Measure the ceilings of this device"
    job = asked_job(store, CeilingsRequest(), CEILINGS_S, button, key="ceilings")
    found = result_of(store, job, "ceilings") if job else None
    if job and found:
        if st.session_state["live"].ceilings != found:
            st.session_state["live"] = replace(st.session_state["live"], ceilings=found)
            st.rerun()
        retry_button(store, [job], "ceilings-again", "Measure the ceilings again")
