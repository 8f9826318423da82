"""The page's figures beside its curves: bytes in four meanings, and the roofline."""

from collections import defaultdict

import plotly.graph_objects as go

from kernels.measure.four_numbers import FourTotals, TrafficTotal
from kernels.measure.roofline import Roof, RoofPoint
from viz.shared import theme
from viz.shared.figures import charts, sweep
from viz.shared.formats import format_bytes, format_flops, significant

PATTERNS = {"modelled": "/", "requested": "", "compulsory": ".", "DRAM": ""}


def four_numbers_figure(title: str, totals: FourTotals, color: str, colors: theme.Palette) -> go.Figure:
    """One bar per total, cut into the kernels or operations it is the sum of. A missing total says why."""
    bars = []
    for total in totals:
        if not total.parts:  # so that it has a row for its reason
            bars.append(charts.rows([_label(total)], [0], hoverinfo="skip"))
        for index, (name, moved) in enumerate(total.parts):
            # Every second part of a bar is paler, so that neighbours are told apart.
            look = {"opacity": 0.62 if index % 2 else 1.0, "line": {"color": colors.background, "width": 1.5}}
            filled = colors.muted if total.kind == "compulsory" else color
            marker = charts.hatched(filled, PATTERNS[total.kind], colors) | look
            words = f"{name}: {format_bytes(moved)}<br>{total.origin}: {total.source}"
            bars.append(
                charts.rows([_label(total)], [moved], marker=marker, hovertext=words, hoverinfo="text")
            )
    x = charts.lengths(max(total.bytes or 0 for total in totals), 1.32)
    y = charts.DOWNWARDS | {"tickfont_size": 14}
    layout = {"barmode": "stack", "bargap": 0.28, "showlegend": False, "margin_t": 34}
    figure = charts.chart(bars, colors, 60 + 62 * len(totals), title, x, y, **layout)
    for total in totals:
        words, font = total.missing, {"size": 13, "color": colors.muted}
        if total.bytes is not None:
            words, font = format_bytes(total.bytes), {"size": 15}
        place = {"y": _label(total), "xanchor": "left", "xshift": 8}  # behind the bar
        charts.note(figure, words, total.bytes or 0, font=font, **place)
    return figure


def _label(total: TrafficTotal) -> str:
    return total.kind if total.kind == total.origin else f"{total.kind}<br>({total.origin})"


SYMBOLS = {"counted": "circle", "DRAM": "diamond", "modelled": "circle-open", "operations": "circle-open"}
BYTES_WORDS = {
    "counted": "requested bytes (counted)",
    "DRAM": "DRAM bytes (recorded by hardware counters)",
    "modelled": "modelled bytes",
    "operations": "requested bytes (modelled from the sizes of torch's tensors)",
}


def roofline_figure(roofs: list[Roof], points: list[RoofPoint], colors: theme.Palette) -> go.Figure:
    """FLOP/s over FLOP per byte, log axes. Between the joined points of a call lies what the L2 served."""
    low = min([0.5, *(point.intensity / 2 for point in points)])
    high = max([1000.0, *(2 * roof.ridge for roof in roofs), *(8 * point.intensity for point in points)])
    calls: dict[tuple, list[RoofPoint]] = defaultdict(list)
    for point in points:
        calls[point.peer, point.direction, point.problem].append(point)
    fastest_first = sorted(calls.values(), key=lambda call: -call[0].flops_per_s)
    traces = [_roof(roof, low, high, colors) for roof in roofs]
    traces += [_call(call, colors) for call in fastest_first]
    x = charts.POWERS | {"title": {"text": "FLOP per byte", "standoff": 4}}
    speeds = [10.0**power for power in range(8, 17)]
    y = charts.log_ticks(speeds, [f"{format_flops(speed)}/s" for speed in speeds], dtick=1)
    return charts.chart(
        traces, colors, 470, "", x, y, legend=charts.LEGEND_BELOW, margin_t=12, hovermode="closest"
    )


def _roof(roof: Roof, low: float, high: float, colors: theme.Palette) -> go.Scatter:
    x = [low, roof.ridge, high]
    y = [roof.attainable(intensity) for intensity in x]
    look = (colors.text, 3, "solid") if roof.origin == "measured" else (colors.muted, 2, "dot")
    words = f"{format_bytes(roof.bytes_per_s)}/s, {format_flops(roof.flops_per_s)}/s"
    return charts.line(x, y, *look, name=f"{roof.label}: {words}", hoverinfo="skip")


def _call(points: list[RoofPoint], colors: theme.Palette) -> go.Scatter:
    """The points of one call, named in the legend: fused kernels are too close for names beside the marks."""
    peer, color = points[0].peer, theme.peer_color(points[0].peer, colors)
    label = sweep.peer_label(peer) + (" backward" if points[0].direction == "backward" else "")
    symbols = [SYMBOLS[point.bytes_are] for point in points]
    return charts.line(
        [point.intensity for point in points],
        [point.flops_per_s for point in points],
        *(color, 1.5, "dot"),
        mode="lines+markers",
        name=label,
        marker=charts.mark(color, 13, symbols, {"width": 2, "color": color}),
        hovertext=[_hover(label, point) for point in points],
        hoverinfo="text",
    )


def _hover(label: str, point: RoofPoint) -> str:
    intensity = f"{significant(point.intensity)} FLOP per byte, {BYTES_WORDS[point.bytes_are]}"
    return f"{label}<br>{intensity}<br>{format_flops(point.flops_per_s)}/s"
