"""The roofline panel: ceilings of a device, measured beside those of its datasheet, and measured calls under them."""

from __future__ import annotations

import streamlit as st

from kernels.device.backend import DeviceInfo
from kernels.measure.roofline import RoofPoint, counter_points, roofs, timed_points
from kernels.measure.series import Curve
from kernels.worker.client import JobFailure
from viz.measure import live
from viz.measure.controls import Choice
from viz.measure.figures.roofline import roofline_figure
from viz.measure.sources import HERE, Source
from viz.shared import runs
from viz.shared.layout import colors, plot

EXPLAINED = (
    "Left of a roof's corner memory sets the pace, right of it the matrix units. A filled circle stands over the bytes a call **requested** "
    "(counted), a diamond over those that reached **DRAM** (hardware counters): what lies between them the L2 served. A ring stands over "
    "**modelled** bytes: S and P written and read for naive attention, the compulsory bytes for fused ones."
)


def roofline_panel(
    store: runs.RunStore | None, backend: str, shown: list[Source], curves: list[Curve], choice: Choice
) -> None:
    """One device at a time: points of different devices do not belong under one roof."""
    devices = {source.name: source for source in shown if source.device is not None}
    if not devices:
        st.caption("Nothing is measured yet.")
        return
    names = list(devices)
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
    source = devices.get(name, devices[names[0]])
    dtype = source.dtype or choice.view.dtype
    lines = roofs(source.document.ceilings, source.device, dtype)
    points = source_points(source, source.device, curves, choice)
    st.caption(f"{source.words[0].upper()}{source.words[1:]}. {EXPLAINED}")
    if source.name == HERE:
        _ceilings_button(store, backend, source)
    if lines or points:
        plot(roofline_figure(lines, points, colors()), key="roofline")


def source_points(source: Source, device: DeviceInfo, curves: list[Curve], choice: Choice) -> list[RoofPoint]:
    """Hardware-counter runs of this choice, and of the other peers the point of the same length, or the largest."""
    counted = [
        run
        for run in source.document.counters
        if run.device.name == device.name
        and run.direction in choice.directions
        and (run.peer in choice.peers)
        and (run.problem.head_dim, run.problem.mask) == (choice.view.head_dim, choice.view.mask)
    ]
    points = counter_points(counted)
    measured = [point for curve in curves if curve.source == source.name for point in curve.measured]
    lengths = {run.problem.q_len for run in counted}
    beside = [
        point for point in measured if point.problem.q_len in lengths
    ]  # one length for all, where there is such a one
    largest = max((point.x for point in beside or measured), default=None)
    problems = {point.problem for point in beside or measured if point.x == largest}
    seen = {(point.peer, point.direction) for point in points}
    for measurement in source.document.measurements:
        if measurement.problem in problems and measurement.device.name == device.name:
            for point in timed_points(measurement, choice.directions):
                if point.peer in choice.peers and (point.peer, point.direction) not in seen:
                    seen.add((point.peer, point.direction))
                    points.append(point)
    return points


def _ceilings_button(store: runs.RunStore | None, backend: str, source: Source) -> None:
    """Ceilings of the device at hand: asked for once, then kept with the session's measurements."""
    if store is None or backend in ("replay", "starting"):
        return
    job = st.session_state.get("ceilings_job")
    if job is not None:
        _await_ceilings(store)
    elif st.button(
        "Measure the ceilings again" if source.document.ceilings else "Measure the ceilings of this device",
        icon=":material/straighten:",
    ):
        st.session_state["ceilings_job"] = store.ceilings()
        st.rerun()


@st.fragment(run_every=0.5)
def _await_ceilings(store: runs.RunStore) -> None:
    job = st.session_state.get("ceilings_job")
    if job is None:
        return
    if not job.done:
        st.caption(f"{job.label} …")
        return
    st.session_state["ceilings_job"] = None
    store.forget(job)
    try:
        live.keep_ceilings(job)
    except JobFailure as error:
        st.session_state["ceilings_failure"] = str(error)
    st.rerun()
