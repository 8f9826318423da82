"""The charts of a sweep with a table below each, the cards above them, and the downloads."""

from dataclasses import replace

import streamlit as st

from kernels.measure.nearest import differences, distance
from kernels.measure.peers import PEERS
from kernels.measure.series import TRAINING_STEP, CurvePoint, PeerCurve, SweepView, training_steps
from viz.measure.controls import ONE_POINT, Choice
from viz.measure.sources import FILE, HERE, RECORDED, Source, to_document
from viz.player.talk.chart import fixed_words
from viz.shared.figures import sweep
from viz.shared.formats import format_length, format_ms, format_ratio, plain
from viz.shared.layout import colors, download, plot, segments
from viz.shared.words import Words

CHARTS = {
    "time": "time",
    "TFLOP/s": "tflops",
    "memory": "memory",
    "speed-up": "speedup",
    "energy": "energy",
    "call time": "call",
}
OURS = ("ours", "sdpa")
"""Peers that the cards compare with standard attention: our kernels, or torch's fused attention on a CPU."""
WORDS = Words(__file__)


def shown_curves(sources: list[Source], choice: Choice) -> list[PeerCurve]:
    """Curves of the chosen peers and directions, source by source; with ONE_POINT only that point of each.

    If no source has any, the recording shows what is nearest; `problem_lines` says how far that is.
    """
    shown = [curve for source in sources for curve in _chosen(source.curves(choice.view), choice)]
    recorded = next((source for source in sources if source.name == RECORDED), None)
    problems = [each.problem for each in recorded.document.measurements] if recorded else []
    if shown or not problems or recorded is None:
        return shown
    near = min(problems, key=lambda each: distance(each, choice.view.problem()))
    view = replace(choice.view, head_dim=near.head_dim, mask=near.mask, dtype=near.dtype, length=near.q_len)
    return _chosen(recorded.curves(view), replace(choice, view=view))


def _chosen(curves: list[PeerCurve], choice: Choice) -> list[PeerCurve]:
    if choice.axis == ONE_POINT:
        at_it = (tuple(each for each in curve.points if each.x == choice.view.length) for curve in curves)
        curves = [replace(curve, points=points) for curve, points in zip(curves, at_it, strict=True)]
    of_peers = [curve for curve in curves if curve.peer in choice.peers or curve.source == FILE]
    return [curve for curve in of_peers if curve.points and curve.direction in choice.directions]


def problem_lines(curves: list[PeerCurve], choice: Choice, dtype: str | None) -> str:
    """A line for the problems of each source, and for what "Measure here" measures if there is a `dtype`."""
    view, lines = choice.view, []
    for source in dict.fromkeys(curve.source for curve in curves):
        points = [point for curve in curves if curve.source == source for point in curve.points]
        varied = len({(point.problem.batch, point.problem.q_heads) for point in points}) > 1
        shape = fixed_words(points[0].problem, view.axis, tokens=varied and view.axis != "batch")
        span = _span(view.axis, {point.x for point in points})
        device = plain(points[0].measurement.device.name)
        lines.append(f"**{source}** ({device}): {span}, {shape}{_other_words(points, view)}.")
    if dtype is not None:
        shape = fixed_words(choice.problems(dtype)[0], view.axis, tokens=view.tokens > 0)
        lines.append(f"**Measure here** measures {_span(view.axis, {*choice.points})}, {shape}.")
    return "  \n".join(lines)


def _other_words(points: list[CurvePoint], view: SweepView) -> str:
    """How far a source's problem with the largest x is from the one asked for; "" if it is the same."""
    last = max(points, key=lambda point: point.x)
    asked = view.moved_to(last.x) if len({point.x for point in points}) > 1 else view
    found = ", ".join(differences(last.problem, asked.problem()))
    x = f"{view.axis} {format_length(last.x) if view.axis == 'length' else last.x}"
    return f"; your problem differs: at {x}, {found}" if found else ""


def _span(axis: str, xs: set[int]) -> str:
    """ "length 512 to 16k", or the one value that there is."""
    ends = [format_length(x) if axis == "length" else str(x) for x in (min(xs), max(xs))]
    return f"{axis} {' to '.join(dict.fromkeys(ends))}"


def missing_peers(source: Source, drawn: set[tuple[str, str]], choice: Choice) -> str:
    """The chosen peers that the source's device could run and that are not `drawn`: (peer, direction)."""
    backend = source.device.backend if source.device else ""
    missing = [
        sweep.peer_label(peer) + (f" {direction}" if len(choice.directions) > 1 else "")
        for direction in choice.directions
        for peer in choice.peers
        if backend in PEERS[peer].backends and (peer, direction) not in drawn
    ]
    return "; ".join(missing)


def largest_comparison(curves: list[PeerCurve]) -> tuple[PeerCurve, PeerCurve, int] | None:
    """Standard attention, a fused peer, and the largest x that both have, first of this machine; or None."""
    comparisons = [
        (naive, fused, max(common))
        for naive in curves
        for fused in curves
        if naive.peer == "naive"
        and fused.peer in OURS
        and (fused.source, fused.direction) == (naive.source, naive.direction)
        and (common := naive.timings.keys() & fused.timings.keys())
    ]
    return max(comparisons, key=lambda found: (found[0].source == HERE, found[2]), default=None)


def result(curves: list[PeerCurve], choice: Choice) -> None:
    """Speed and memory against standard attention at the largest x that both have."""
    found = largest_comparison(curves)
    if found is None:
        return
    naive, fused, x = found
    at = f"{sweep.LETTERS[choice.view.axis]} {format_length(x)} · {naive.source}"
    said = {"peer": sweep.peer_label(fused.peer), "direction": fused.direction, "at": at}
    for metric in ("time", "memory"):
        theirs, ours = (curve.values(metric).get(x, 0) for curve in (naive, fused))
        said[metric] = f"{sweep.format_metric(ours, metric)}, standard {sweep.format_metric(theirs, metric)}"
        said[f"{metric} ratio"] = format_ratio(theirs / (ours or 1))
    st.markdown(WORDS("result", **said))


def charts_panel(sources: list[Source], curves: list[PeerCurve], choice: Choice) -> None:
    """One large chart with its table, for each direction, and the chosen peers that were not measured."""
    metric = "time"  # of one point, a table has all
    if choice.axis != ONE_POINT:
        metric = CHARTS[segments("Show", tuple(CHARTS), "chart", label_visibility="collapsed")]
    directions = choice.directions
    if metric == "energy" and len(directions) > 1 and (steps := training_steps(curves)):
        curves, directions = steps, (TRAINING_STEP,)
    for direction in directions:
        in_direction = [curve for curve in curves if curve.direction == direction]
        st.markdown(f"**{direction}**" + ("" if in_direction else ": nothing was measured yet."))
        has_any = any(sweep.curve_values(curve, curves, metric) for curve in in_direction)
        if not has_any and (reason := f"without {metric}") in WORDS.sections:
            st.info(WORDS(reason), icon=":material/search_off:")
            continue
        rows = point_rows(in_direction)
        if choice.axis != ONE_POINT:
            rows = table_rows(in_direction, metric, choice.view.axis)
            figure = sweep.sweep_figure(in_direction, metric, choice.view.axis, colors())
            plot(figure, key=f"sweep-{direction}")
        st.dataframe(rows, hide_index=True, key=f"table-{direction}", height="content")
        if (note := f"note {metric}") in WORDS.sections:
            st.caption(WORDS(note))
    for source in sources:
        drawn = {(curve.peer, curve.direction) for curve in curves if curve.source == source.name}
        if drawn and (missing := missing_peers(source, drawn, choice)):
            st.caption(plain(f"Not measured ({source.name}): {missing}."))


def table_rows(curves: list[PeerCurve], metric: str, axis: str) -> dict[str, list[str]]:
    """A column per curve, a row per x; a refused peer says why in few words."""
    xs = sorted({point.x for curve in curves for point in curve.points})
    rows = {axis: [f"{x:,}" for x in xs]}
    for curve, name in zip(curves, sweep.curve_names(curves), strict=True):
        if metric != "speedup" or curve.peer != "naive":
            values = dict(sweep.curve_values(curve, curves, metric))
            points = {point.x: point for point in curve.points}
            rows[name] = [_cell(points.get(x), values.get(x), metric, curve.direction) for x in xs]
    return rows


def point_rows(curves: list[PeerCurve]) -> dict[str, list[str]]:
    """A row per peer with everything that was measured at one point."""
    rows = {"peer": sweep.curve_names(curves)}
    for words, metric in CHARTS.items():
        is_rare = metric in ("call", "energy")
        if metric != "speedup" and (not is_rare or any(curve.values(metric) for curve in curves)):
            last = [(curve.points[-1], curve.direction) for curve in curves]
            rows[words] = [_cell(point, point.value(metric), metric, of) for point, of in last]
    return rows


def _cell(point: CurvePoint | None, value: float | None, metric: str, direction: str) -> str:
    if point is None:
        return "not measured"
    if value is None:
        if point.result.out_of_memory:
            return "out of memory"
        return sweep.short_reason(point.result.refused or "–")
    words = sweep.format_metric(value, metric).removesuffix(" TFLOP/s")
    if metric == "call":
        host_ms = point.result.host_ms  # how long the host is busy with a call
        return words if host_ms is None else f"{words}, queued after {format_ms(host_ms)}"
    if metric == "energy":
        return f"{words} {sweep.sustained_words(point, direction)}"
    timing = point.result.timing
    return f"{words} ±{timing.spread / 2:.0%}" if metric == "time" and timing else words


def files(sources: list[Source], curves: list[PeerCurve]) -> None:
    """What is on the charts, as the JSON that this page reads again. A table saves itself as CSV."""
    name, again = "attention-measurements.json", WORDS("json")
    download("JSON", lambda: to_document(sources, curves).to_json(), name, again)
