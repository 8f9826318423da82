"""The charts of a sweep with a table beside each, the figures one reads first, and the downloads."""

from __future__ import annotations

import json

import streamlit as st

from kernels.measure.series import Curve, Point
from viz.measure.controls import ONE_POINT, Choice, shape_words
from viz.measure.figures.points import point_figure
from viz.measure.figures.sweep import LETTERS, curve_values, format_metric, peer_label, sweep_figure
from viz.measure.sources import Source, plain, to_csv, to_document
from viz.shared import theme
from viz.shared.layout import colors, plot

CHARTS = {"time": "time", "TFLOP/s": "tflops", "memory": "memory", "speed-up": "speedup"}
OURS = ("ours", "sdpa")
"""What naive attention is compared with in the cards: our kernels, or torch's fused attention where those cannot be timed."""
EXPONENT = "Exponents are of one sequence (a launch over its batch), fitted to the logarithms of the larger half of the lengths."


def shown_curves(sources: list[Source], choice: Choice) -> list[Curve]:
    """Curves of the chosen peers and directions, source by source; of one point only that point."""
    found = []
    for source in sources:
        for curve in source.curves(choice.view):
            if curve.peer in choice.peers or curve.source == "file":
                found.append(curve)
    if choice.axis == ONE_POINT:
        kept = (
            Curve(c.source, c.peer, c.direction, tuple(p for p in c.points if p.x == choice.view.length))
            for c in found
        )
        found = [curve for curve in kept if curve.points]
    return [curve for curve in found if curve.direction in choice.directions]


def cards(curves: list[Curve], choice: Choice) -> None:
    """At the largest place where both were measured: speed-up over naive attention, memory of both; and the exponents."""
    pair = _largest_pair(curves)
    if pair is None:
        return
    naive, ours, source = pair
    axis = choice.view.axis
    at = f"{LETTERS[axis]} {theme.format_length(naive.x)} · {source}"
    label = peer_label(ours.result.peer)
    direction = f" {ours.result.direction}" if len(choice.directions) > 1 else ""
    speed = naive.value("time") / ours.value("time")
    less = naive.value("memory") / max(ours.value("memory"), 1)
    row = st.container(horizontal=True, gap="small", key="figures")
    times = f"{theme.format_ms(ours.value('time'))}, naive {theme.format_ms(naive.value('time'))}"
    _card(
        row,
        f"Speed-up{direction} · {at}",
        theme.format_ratio(speed),
        times,
        f"{label} against naive attention, {source}, median of each.",
    )
    memory = f"{theme.format_bytes(ours.value('memory'))}, naive {theme.format_bytes(naive.value('memory'))}"
    _card(
        row,
        f"Memory · {at}",
        f"{theme.format_ratio(less)} less",
        memory,
        f"Peak of allocated bytes beyond the inputs, {source}; results count.",
    )
    for metric in ("time", "memory"):
        _exponent_card(row, curves, ours, source, metric, axis)


def _exponent_card(
    row: object, curves: list[Curve], ours: Point, source: str, metric: str, axis: str
) -> None:
    of = {
        curve.peer: curve.exponent(metric)
        for curve in curves
        if (curve.source, curve.direction) == (source, ours.result.direction)
    }
    naive, fused = of.get("naive"), of.get(ours.result.peer)
    if naive is None or fused is None or axis != "length":
        return
    help_words = f"{EXPONENT} {peer_label(ours.result.peer)} against naive attention, {source}."
    _card(
        row, f"{metric.capitalize()} of a sequence", f"∝ N^{fused:.1f}", f"naive ∝ N^{naive:.1f}", help_words
    )


def _card(row: object, label: str, value: str, words: str, help_words: str) -> None:
    row.metric(label, value, words, delta_color="off", delta_arrow="off", help=help_words, border=True)


def _largest_pair(curves: list[Curve]) -> tuple[Point, Point, str] | None:
    """Naive attention and the fused one at the largest place both have; live ones before recorded ones."""
    pairs = []
    for naive in (curve for curve in curves if curve.peer == "naive"):
        for ours in (
            curve
            for curve in curves
            if curve.peer in OURS and (curve.source, curve.direction) == (naive.source, naive.direction)
        ):
            by_x = {point.x: point for point in ours.measured}
            pairs += [
                (naive.source == "here", p.x, p, by_x[p.x], naive.source)
                for p in naive.measured
                if p.x in by_x
            ]
    return max(pairs, key=lambda pair: pair[:2])[2:] if pairs else None


def charts_panel(curves: list[Curve], choice: Choice) -> None:
    """One large chart with its table, for each direction."""
    shown = st.segmented_control(
        "Show", list(CHARTS), default="time", required=True, key="chart", bind="query-params", label_visibility="collapsed"
    )  # fmt: skip
    metric = CHARTS[shown]
    for direction in choice.directions:
        of_direction = [curve for curve in curves if curve.direction == direction]
        if not of_direction:
            st.caption(f"Nothing measured {direction} here yet.")
            continue
        if len(choice.directions) > 1:
            st.markdown(f"**{direction}**")
        chart, table = st.columns([3, 2], gap="medium")
        with chart:
            if choice.axis == ONE_POINT:
                plot(point_figure(of_direction, metric, colors()), key=f"sweep-{direction}")
            else:
                plot(sweep_figure(of_direction, metric, choice.view.axis, colors()), key=f"sweep-{direction}")
        with table:
            one = choice.axis == ONE_POINT
            rows = point_rows(of_direction) if one else table_rows(of_direction, metric, choice.view.axis)
            st.dataframe(rows, hide_index=True, key=f"table-{direction}", height="content")
            st.caption(fixed_words(of_direction, choice))
            if metric == "time":
                st.caption("±: half of what lies between the 10th and the 90th percentile.")
            if metric in ("time", "memory") and choice.axis == "length":
                st.caption(EXPONENT)
    notes = spread_notes(curves)
    if notes:
        st.caption(
            f":material/warning: wide spread (10th to 90th percentile over a quarter of the median): {plain(notes)}."
        )


def table_rows(curves: list[Curve], metric: str, axis: str) -> dict[str, list[str]]:
    """A column a curve, a row a place; a peer that was refused says why in few words."""
    xs = sorted({point.x for curve in curves for point in curve.points})
    many = len({curve.source for curve in curves}) > 1
    rows = {axis: [f"{x:,}" for x in xs]}
    for curve in curves:
        if metric == "speedup" and curve.peer == "naive":
            continue
        values = dict(curve_values(curve, curves, metric))
        points = {point.x: point for point in curve.points}
        rows[curve.peer + (f" · {curve.source}" if many else "")] = [
            _cell(points.get(x), values.get(x), metric) for x in xs
        ]
    return rows


def point_rows(curves: list[Curve]) -> dict[str, list[str]]:
    """A row a peer with everything that was measured there."""
    many = len({curve.source for curve in curves}) > 1
    rows = {"peer": [curve.peer + (f" · {curve.source}" if many else "") for curve in curves]}
    for words, metric in (("time", "time"), ("TFLOP/s", "tflops"), ("memory", "memory")):
        rows[words] = [_cell(curve.points[-1], curve.points[-1].value(metric), metric) for curve in curves]
    return rows


def _cell(point: Point | None, value: float | None, metric: str) -> str:
    if point is None:
        return ""
    if value is None:
        return "out of memory" if point.result.out_of_memory else (point.result.refused or "–")[:60]
    words = format_metric(value, metric).removesuffix(" TFLOP/s")
    if metric != "time":
        return words
    return f"{words} ±{point.result.timing.spread / 2:.0%}"


def fixed_words(curves: list[Curve], choice: Choice) -> str:
    """What is held fixed, source by source."""
    said = {}
    for curve in curves:
        problems = [point.problem for point in curve.points]
        tokens = len({problem.batch for problem in problems}) > 1 and choice.view.axis != "batch"
        said.setdefault(curve.source, shape_words(problems[0], choice.view.axis, tokens))
    return "  \n".join(f"{source}: {words}" for source, words in said.items())


def spread_notes(curves: list[Curve], most: int = 4) -> str:
    """Which numbers are not to be trusted to the digit: "naive at 512 (41 %)"."""
    wide = [
        (
            point.result.timing.spread,
            f"{peer_label(curve.peer)} {curve.direction} at {point.x:,} ({point.result.timing.spread:.0%}, {curve.source})",
        )
        for curve in curves
        for point in curve.measured
        if point.result.timing.is_wide
    ]
    wide.sort(reverse=True)
    more = f" and {len(wide) - most} more" if len(wide) > most else ""
    return ", ".join(words for _, words in wide[:most]) + more


def downloads(sources: list[Source], curves: list[Curve]) -> None:
    """What is on the charts, as CSV and as the JSON that this page reads again."""
    with st.container(horizontal=True):
        st.download_button(
            "CSV", lambda: to_csv(sources, curves), "attention-measurements.csv", "text/csv", icon=":material/download:", on_click="ignore",
            help="One line a result, with device, versions, date and the command that repeats it.",
        )  # fmt: skip
        st.download_button(
            "JSON", lambda: json.dumps(to_document(sources, curves).as_dict(), indent=1), "attention-measurements.json", "application/json",
            icon=":material/download:", on_click="ignore", help="Device, versions, date and command included; drop it on this page to see it again.",
        )  # fmt: skip
