"""The roofline of a device, measured and by its datasheet, with measured calls under it."""

from __future__ import annotations

from collections import defaultdict

import plotly.graph_objects as go

from kernels.measure.roofline import Roof, RoofPoint
from viz.shared import theme
from viz.shared.figures.charts import LEGEND_BELOW, POWERS, chart, line, log_ticks, mark
from viz.shared.figures.sweep import peer_label
from viz.shared.formats import format_bytes, format_flops, significant

SYMBOLS = {"counted": "circle", "DRAM": "diamond", "modelled": "circle-open", "operations": "circle-open"}
BYTES_WORDS = {
    "counted": "requested bytes (counted)",
    "DRAM": "DRAM bytes (recorded by hardware counters)",
    "modelled": "modelled bytes",
    "operations": "requested bytes (modelled from the sizes of torch's tensors)",
}


def roofline_figure(roofs: list[Roof], points: list[RoofPoint], colors: theme.Palette) -> go.Figure:
    """FLOP/s over FLOP per byte, both on log axes, with the points of one call joined.

    Between the points over requested and over DRAM bytes lie the bytes that the L2 served.
    """
    low = min([0.5, *(point.intensity / 2 for point in points)])
    high = max([1000.0, *(2 * roof.ridge for roof in roofs), *(8 * point.intensity for point in points)])
    calls: dict[tuple, list[RoofPoint]] = defaultdict(list)
    for point in points:
        calls[point.peer, point.direction, point.problem].append(point)
    fastest_first = sorted(calls.values(), key=lambda call: -call[0].flops_per_s)
    traces = [_roof(roof, low, high, colors) for roof in roofs]
    traces += [_call(call, colors) for call in fastest_first]
    x = POWERS | {"title": {"text": "FLOP per byte", "standoff": 4}}
    speeds = [10.0**power for power in range(8, 17)]
    y = log_ticks(speeds, [f"{format_flops(speed)}/s" for speed in speeds], dtick=1)
    return chart(traces, colors, 470, "", x, y, legend=LEGEND_BELOW, margin_t=12, hovermode="closest")


def _roof(roof: Roof, low: float, high: float, colors: theme.Palette) -> go.Scatter:
    x = [low, roof.ridge, high]
    y = [roof.attainable(intensity) for intensity in x]
    look = (colors.text, 3, "solid") if roof.origin == "measured" else (colors.muted, 2, "dot")
    words = f"{format_bytes(roof.bytes_per_s)}/s, {format_flops(roof.flops_per_s)}/s"
    return line(x, y, *look, name=f"{roof.label}: {words}", hoverinfo="skip")


def _call(points: list[RoofPoint], colors: theme.Palette) -> go.Scatter:
    """The points of one call.

    Its name is in the legend: fused kernels are too close for names beside the marks.
    """
    peer, color = points[0].peer, theme.peer_color(points[0].peer, colors)
    label = peer_label(peer) + (" backward" if points[0].direction == "backward" else "")
    symbols = [SYMBOLS[point.bytes_are] for point in points]
    return line(
        [point.intensity for point in points],
        [point.flops_per_s for point in points],
        *(color, 1.5, "dot"),
        mode="lines+markers",
        name=label,
        marker=mark(color, 13, symbols, {"width": 2, "color": color}),
        hovertext=[_hover(label, point) for point in points],
        hoverinfo="text",
    )


def _hover(label: str, point: RoofPoint) -> str:
    intensity = f"{significant(point.intensity)} FLOP per byte, {BYTES_WORDS[point.bytes_are]}"
    return f"{label}<br>{intensity}<br>{format_flops(point.flops_per_s)}/s"
