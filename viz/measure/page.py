"""Measure: speed, memory and traffic of attention, live on this machine and recorded on a GPU."""

from dataclasses import replace

import streamlit as st

from kernels.device.gpu_state import clock_words
from kernels.file_format import UnreadableFile
from kernels.measure.document import MAX_FILE_BYTES
from kernels.measure.roofline import RoofPoint, counter_points, roofs, timed_points
from kernels.measure.series import PeerCurve
from kernels.worker.requests import CeilingsRequest
from viz.measure import charts, live
from viz.measure.charts import missing_peers
from viz.measure.controls import IN_URL, Choice, measure_controls
from viz.measure.figures import roofline_figure
from viz.measure.sources import FILE, HERE, RECORDED, Source, file_source, recorded_source
from viz.measure.traffic import traffic_panel
from viz.shared import runs, theme
from viz.shared.figures.sweep import peer_label
from viz.shared.formats import plain
from viz.shared.glossary import glossary_list, in_words
from viz.shared.kept_problem import kept_problem, measured_words
from viz.shared.layout import colors, header, plot, segments
from viz.shared.link import takes_from_link
from viz.shared.waiting import asked_job, result_of, retry_button
from viz.shared.words import Words

# About what the ceilings of a device take.
CEILINGS_S = 10.0
WORDS = Words(__file__)


def roofline_panel(shown: list[Source], curves: list[PeerCurve], choice: Choice) -> None:
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
    st.caption(WORDS("roofline"))
    if source.name == HERE:
        _ceilings()
    if lines or points:
        plot(roofline_figure(lines, points, colors()), key="roofline")
    if missing := missing_peers(source, {(point.peer, point.direction) for point in points}, choice):
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
    # those at the length of the counter runs, or at the largest x if none was measured there
    timed = [p for each in curves if each.source == source.name for p in each.points if p.result.timing]
    lengths = {run.problem.q_len for run in counted}
    timed = [point for point in timed if point.problem.q_len in lengths] or timed
    largest = max((point.x for point in timed), default=None)
    problems = {point.problem for point in timed if point.x == largest}
    for measurement in source.document.measurements:
        if measurement.problem in problems and measurement.device.name == device:
            for point in timed_points(measurement, choice.directions):
                if point.peer in choice.peers and (point.peer, point.direction) not in drawn:
                    drawn.add((point.peer, point.direction))
                    points.append(point)
    return points


def _ceilings() -> None:
    """Measure the ceilings of this machine's device, for the rest of the session."""
    store = runs.run_store()
    if store is None or runs.backend(store) in live.NO_DEVICE:
        return
    button = "Measure the ceilings of this device"
    job = asked_job(store, CeilingsRequest(), CEILINGS_S, button, key="ceilings")
    found = result_of(store, job, "ceilings")
    if job and found:
        if st.session_state["live"].ceilings != found:
            st.session_state["live"] = replace(st.session_state["live"], ceilings=found)
            st.rerun()
        retry_button(store, [job], "ceilings-again", "Measure the ceilings again")


# Sections of the words that say why a source has no curve.
NO_SWEEP = {RECORDED: "nothing recorded", FILE: "nothing in the file"}


def source_row(choice: Choice) -> list[Source]:
    """The chosen sources. One row: origins, a file to show beside them, the button that measures here."""
    pills, popover, button = st.columns([3, 1.4, 1.4], vertical_alignment="bottom")
    with popover.popover("Your own file", icon=":material/upload_file:", width="stretch"):
        uploaded = _upload()
    with button:
        live.start_button(choice)
    sources = [recorded_source(), live.live_source(), *([uploaded] if uploaded else [])]
    names = pills.pills(
        "Numbers",
        [source.name for source in sources],
        selection_mode="multi",
        default=[RECORDED, HERE],
        key="from",
        bind="query-params",
        help=WORDS("sources"),
    )
    return [source for source in sources if source.name in names]


def _upload() -> Source | None:
    """The user's file, or None after showing why it is not accepted."""
    st.markdown(WORDS("file"))
    file = st.file_uploader(
        "Measurements (.json)",
        type="json",
        key="upload",
        on_change=_show_file,
        max_upload_size=MAX_FILE_BYTES >> 20,
    )
    if file is None:
        return None
    try:
        return file_source(file.getvalue())
    except UnreadableFile as error:
        st.error(plain(f"{file.name} is not accepted: {str(error).rstrip('.')}."), icon=":material/error:")
        return None


def _show_file() -> None:
    shown = list(st.session_state.get("from") or [])
    if st.session_state.get("upload") is not None and FILE not in shown:
        st.session_state["from"] = [*shown, FILE]


def say_missing(shown: list[Source], curves: list[PeerCurve]) -> None:
    """Say of each source that gave no curve what it holds instead."""
    drawn = {curve.source for curve in curves}
    for source in (source for source in shown if source.name not in drawn):
        measurements = source.document.measurements
        if not measurements:
            if source.name in NO_SWEEP:
                st.info(WORDS(NO_SWEEP[source.name]), icon=":material/search_off:")
            continue
        fields = {"head_dim": "head_dim", "length": "q_len", "mask": "mask", "dtype": "dtype"}
        held = {
            name: {getattr(each.problem, field) for each in measurements} for name, field in fields.items()
        }
        held["peers"] = {peer_label(result.peer) for each in measurements for result in each.results}
        words = "; ".join(f"{name} {', '.join(map(str, sorted(values)))}" for name, values in held.items())
        nothing = f"**{source.name}** has nothing for this choice. It holds {plain(words)}."
        st.info(nothing, icon=":material/search_off:")


def how_measured(shown: list[Source]) -> None:
    """Device, versions, date, command, clocks and throttling of everything on the page."""
    place = st.expander("How this was measured", key="how", icon=":material/info:", on_change="rerun")
    if not place.open:
        return
    with place:
        for source in (source for source in shown if source.device is not None):
            document = source.document
            st.markdown(f"**{source.name}**: {source.words}.")
            if document.command:
                st.code(document.command.replace(" && ", "\n"), language=None)
            states = [measurement.gpu for measurement in document.measurements if measurement.gpu is not None]
            if clocks := clock_words(states):
                st.caption(plain(clocks))
            if document.left_out:
                st.caption(plain(f"Left out ({len(document.left_out)}): {'; '.join(document.left_out)}"))
        st.caption(WORDS("method"))


store = runs.run_store()
backend = runs.backend(store)
takes_from_link(*IN_URL, "from", "chart", "roof", "shape")
header("Measure: speed, memory, traffic", store)
choice = measure_controls(backend)

if choice:
    if (kept := kept_problem()) and (left_out := measured_words(kept)):
        st.caption(f":material/info: {left_out}")
    shown = source_row(choice)
    live.live_panel()
    curves = charts.shown_curves(shown, choice)
    say_missing(shown, curves)
    lines = [f"**{source.name}**: {source.words}" for source in shown if source.device]
    if curves:
        charts.result(curves, choice)
        charts.charts_panel(shown, curves, choice)
        charts.files(shown, curves)
        dtype = None if backend == "replay" else live.dtype_here(backend, choice)
        lines.append(charts.problem_lines(curves, choice, dtype))
        lines += [in_words("standard attention")] if any(curve.peer == "naive" for curve in curves) else []
    st.caption("  \n".join(lines))

    st.subheader("Roofline", anchor="roofline")
    roofline_panel(shown, curves, choice)

    st.subheader("Traffic: four numbers that are not the same", anchor="traffic")
    traffic_panel(shown, choice)

    how_measured(shown)
    st.caption(theme.ABOUT_NUMBERS)
    glossary_list()
