"""The charts of a sweep with a table beside each, the cards above them, and the downloads."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.measure.series import CurvePoint, PeerCurve, speedups
from viz.measure.controls import ONE_POINT, Choice
from viz.measure.figures.points import point_figure, short_reason
from viz.measure.gaps import device_words, gap_words, without_call_words
from viz.measure.problems import fixed_words
from viz.measure.sources import FILE, HERE, Source, to_csv, to_document
from viz.player.chart import METRICS, Chart, recorded_peers
from viz.player.scene import Scene, Stop
from viz.player.scene_panel import scene_popover
from viz.shared.figures.sweep import (
    LETTERS,
    TITLES,
    curve_values,
    format_metric,
    host_words,
    peer_label,
    sweep_figure,
)
from viz.shared.formats import format_length, format_ratio, plain
from viz.shared.layout import colors, plot

CHARTS = {
    "time": "time",
    "TFLOP/s": "tflops",
    "memory": "memory",
    "speed-up": "speedup",
    "call time": "call",
}
OURS = ("ours", "sdpa")
"""Peers that the cards compare with naive attention: our kernels, or torch's fused attention on a CPU."""
EXPONENT = (
    "Exponents are of one sequence (a call's value over its batch), fitted to the logarithms of the larger "
    "half of the lengths."
)
CALL = (
    "Calls in a row, launched by the host as a program does. The other charts show the kernels alone, "
    "replayed from a CUDA graph. Queued after: until the call returns and the host is free. Call times are "
    "taken on a GPU: on a CPU, “Measure here” adds to the other charts."
)
NO_CALL = (
    "There is no call time here. It is measured on a GPU, with Measure here or `python -m kernels.measure`. "
    "On a CPU the time chart shows whole calls: choose “time” above."
)
NO_SPEEDUP = (
    "There is no speed-up to show: no peer was timed beside naive attention of the same source. Choose "
    "naive (torch) among the peers."
)
NO_NAIVE = "–: naive attention has no time there."
SPREAD = "±: half the distance from the 10th to the 90th percentile."


def shown_curves(sources: list[Source], choice: Choice) -> list[PeerCurve]:
    """Curves of the chosen peers and directions, source by source; with ONE_POINT only that point of each."""
    curves = [curve for source in sources for curve in source.curves(choice.view)]
    shown = []
    for curve in curves:
        if choice.axis == ONE_POINT:
            points = tuple(point for point in curve.points if point.x == choice.view.length)
            curve = replace(curve, points=points)
        chosen = curve.peer in choice.peers or curve.source == FILE
        if chosen and curve.points and curve.direction in choice.directions:
            shown.append(curve)
    return shown


@dataclass(frozen=True)
class Comparison:
    """Naive attention and a fused peer of the same source and direction, at one x."""

    source: str
    naive: CurvePoint
    fused: CurvePoint

    def ratio(self, metric: str) -> float:
        """The value of naive attention over that of the fused peer, which counts as 1 if it is 0 bytes."""
        return (self.naive.value(metric) or 0) / (self.fused.value(metric) or 1)


def largest_comparison(curves: list[PeerCurve]) -> Comparison | None:
    """At the largest x where both were timed, of this machine if it has one; None if there is none."""
    comparisons = []
    for naive in (curve for curve in curves if curve.peer == "naive"):
        naive_points = {point.x: point for point in naive.measured}
        for fused in (curve for curve in curves if curve.peer in OURS):
            if (fused.source, fused.direction) == (naive.source, naive.direction):
                comparisons += [
                    Comparison(naive.source, naive_points[point.x], point)
                    for point in fused.measured
                    if point.x in naive_points
                ]
    return max(comparisons, key=lambda pair: (pair.source == HERE, pair.naive.x), default=None)


def cards(curves: list[PeerCurve], choice: Choice) -> None:
    """Speed-up and memory against naive attention at the largest x that both have, and the exponents."""
    pair = largest_comparison(curves)
    if pair is None:
        return
    at = f"{LETTERS[choice.view.axis]} {format_length(pair.naive.x)} · {pair.source}"
    label = peer_label(pair.fused.result.peer)
    direction = f" {pair.fused.result.direction}" if len(choice.directions) > 1 else ""
    row = st.container(horizontal=True, gap="small", key="figures")
    _card(
        row,
        f"Speed-up{direction} · {at}",
        format_ratio(pair.ratio("time")),
        _both_words(pair, "time"),
        f"{label} against naive attention, {pair.source}, median of each.",
    )
    _card(
        row,
        f"Memory · {at}",
        f"{format_ratio(pair.ratio('memory'))} less",
        _both_words(pair, "memory"),
        f"Peak of allocated bytes beyond the inputs, {pair.source}; results count.",
    )
    if choice.view.axis == "length":
        for metric in ("time", "memory"):
            _exponent_card(row, curves, pair, metric)


def _both_words(pair: Comparison, metric: str) -> str:
    fused, naive = (format_metric(point.value(metric) or 0, metric) for point in (pair.fused, pair.naive))
    return f"{fused}, naive {naive}"


def _exponent_card(row: DeltaGenerator, curves: list[PeerCurve], pair: Comparison, metric: str) -> None:
    exponents = {
        curve.peer: curve.exponent(metric)
        for curve in curves
        if (curve.source, curve.direction) == (pair.source, pair.fused.result.direction)
    }
    peer = pair.fused.result.peer
    naive, fused = exponents.get("naive"), exponents.get(peer)
    if naive is None or fused is None:
        return
    _card(
        row,
        f"{metric.capitalize()} of a sequence",
        f"∝ N^{fused:.1f}",
        f"naive ∝ N^{naive:.1f}",
        f"{EXPONENT} {peer_label(peer)} against naive attention, {pair.source}.",
    )


def _card(row: DeltaGenerator, label: str, value: str, words: str, help_words: str) -> None:
    row.metric(label, value, words, delta_color="off", delta_arrow="off", help=help_words, border=True)


def charts_panel(sources: list[Source], curves: list[PeerCurve], choice: Choice) -> None:
    """One large chart with its table, for each direction."""
    shown = st.segmented_control(
        "Show",
        list(CHARTS),
        default="time",
        required=True,
        key="chart",
        bind="query-params",
        label_visibility="collapsed",
    )
    for direction in choice.directions:
        in_direction = [curve for curve in curves if curve.direction == direction]
        if not in_direction:
            st.caption(f"Nothing was measured {direction} yet.")
            continue
        if len(choice.directions) > 1:
            st.markdown(f"**{direction}**")
        if CHARTS[shown] == "call" and (words := without_call_words(sources, in_direction)):
            st.info(words, icon=":material/timer_off:")
        _chart_and_table(in_direction, CHARTS[shown], choice, direction)
        for words in (
            device_words(sources, in_direction),
            gap_words(sources, curves, choice, CHARTS[shown], direction),
        ):
            if words:
                st.caption(words)
    if notes := spread_notes(curves):
        st.caption(
            ":material/warning: wide spread (10th to 90th percentile over a quarter of the median): "
            f"{plain(notes)}."
        )


def _chart_and_table(curves: list[PeerCurve], metric: str, choice: Choice, direction: str) -> None:
    axis = choice.view.axis
    if metric == "call":
        curves = [curve for curve in curves if curve.values("call")]
        if not curves:
            st.info(NO_CALL, icon=":material/timer_off:")
            return
    if metric == "speedup" and not any(speedups(curve, curves) for curve in curves):
        st.info(NO_SPEEDUP, icon=":material/compare_arrows:")
        return
    if choice.axis == ONE_POINT:
        figure, rows = point_figure(curves, metric, colors()), point_rows(curves)
    else:
        figure, rows = sweep_figure(curves, metric, axis, colors()), table_rows(curves, metric, axis)
    chart, table = st.columns([3, 2], gap="medium")
    with chart:
        plot(figure, key=f"sweep-{direction}")
    with table:
        st.dataframe(rows, hide_index=True, key=f"table-{direction}", height="content")
        st.caption(fixed_words(curves, choice))
        if metric == "time":
            st.caption(SPREAD)
        if metric == "speedup" and any("–" in column for column in rows.values()):
            st.caption(NO_NAIVE)
        if metric == "call":
            st.caption(CALL)
        if metric in ("time", "memory") and choice.axis == "length":
            st.caption(EXPONENT)


def table_rows(curves: list[PeerCurve], metric: str, axis: str) -> dict[str, list[str]]:
    """A column per curve, a row per x; a refused peer says why in few words."""
    xs = sorted({point.x for curve in curves for point in curve.points})
    rows = {axis: [f"{x:,}" for x in xs]}
    for curve, name in _column_names(curves):
        if metric != "speedup" or curve.peer != "naive":
            values = dict(curve_values(curve, curves, metric))
            points = {point.x: point for point in curve.points}
            rows[name] = [_cell(points.get(x), values.get(x), metric) for x in xs]
    return rows


def point_rows(curves: list[PeerCurve]) -> dict[str, list[str]]:
    """A row per peer with everything that was measured at one point."""
    rows = {"peer": [name for _, name in _column_names(curves)]}
    metrics = {"time": "time", "TFLOP/s": "tflops", "memory": "memory"}
    if any(curve.values("call") for curve in curves):
        metrics["call time"] = "call"
    for words, metric in metrics.items():
        rows[words] = [_cell(curve.points[-1], curve.points[-1].value(metric), metric) for curve in curves]
    return rows


def _column_names(curves: list[PeerCurve]) -> list[tuple[PeerCurve, str]]:
    """Each curve with the name of its peer, and of its source if there are several."""
    many = len({curve.source for curve in curves}) > 1
    labels = [(curve, peer_label(curve.peer)) for curve in curves]
    return [(curve, f"{label} · {curve.source}" if many else label) for curve, label in labels]


def _cell(point: CurvePoint | None, value: float | None, metric: str) -> str:
    if point is None:
        return "not measured"
    if value is None:
        if point.result.out_of_memory:
            return "out of memory"
        nothing = "–" if metric == "speedup" else "not measured"
        return short_reason(point.result.refused or nothing)
    words = format_metric(value, metric).removesuffix(" TFLOP/s")
    if metric == "call":
        return f"{words}, {host_words(point)}"
    timing = point.result.timing
    return f"{words} ±{timing.spread / 2:.0%}" if metric == "time" and timing else words


def spread_notes(curves: list[PeerCurve], most: int = 4) -> str:
    """The numbers with the widest spread: "naive (torch) forward at 512 (41%, recorded)"."""
    wide = []
    for curve in curves:
        for point in curve.measured:
            timing = point.result.timing
            if timing is not None and timing.is_wide:
                name = f"{peer_label(curve.peer)} {curve.direction} at {point.x:,}"
                wide.append((timing.spread, f"{name} ({timing.spread:.0%}, {curve.source})"))
    wide.sort(reverse=True)
    more = f" and {len(wide) - most} more" if len(wide) > most else ""
    return ", ".join(words for _, words in wide[:most]) + more


def scene_panel(choice: Choice) -> None:
    """The chart that is shown, as a scene of a talk."""
    words = "What you see, as a scene of a talk. It draws what was recorded: a talk looks alike everywhere."
    scene_popover(lambda: chart_scene(choice, CHARTS[st.session_state["chart"]]), "measure_scene", words)


def chart_scene(choice: Choice, metric: str) -> Scene | str:
    """The scene of a chart, or why there is none."""
    view = choice.view
    if choice.axis == ONE_POINT or metric not in METRICS:
        return "A scene shows time, TFLOP/s, memory or speed-up along an axis. Choose one of these."
    chart = Chart(
        metric,
        view.axis,
        choice.directions[0],
        choice.peers,
        length=view.length,
        head_dim=view.head_dim,
        mask=view.mask,
        dtype=view.dtype,
    )
    recorded = [peer for peer in chart.peers if peer in recorded_peers(chart)]
    if not recorded:
        return "Nothing of this chart was recorded, and a talk shows what was recorded."
    shown = replace(chart, peers=tuple(recorded))
    title = TITLES[metric][0].upper() + TITLES[metric][1:]
    stops = (Stop(str(len(recorded))),)
    return Scene(title, "Recorded on the {device}.", None, stops, view="chart", chart=shown)


def downloads(sources: list[Source], curves: list[PeerCurve]) -> None:
    """What is on the charts, as CSV and as the JSON that this page reads again."""
    with st.container(horizontal=True):
        st.download_button(
            "CSV",
            lambda: to_csv(sources, curves),
            "attention-measurements.csv",
            "text/csv",
            icon=":material/download:",
            on_click="ignore",
            help="One line per result, with device, versions, date and the command that repeats it.",
        )
        st.download_button(
            "JSON",
            lambda: json.dumps(to_document(sources, curves).as_dict(), indent=1),
            "attention-measurements.json",
            "application/json",
            icon=":material/download:",
            on_click="ignore",
            help="With device, versions, date and command. Upload it on this page to see it again.",
        )
