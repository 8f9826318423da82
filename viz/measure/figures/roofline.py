"""The roofline of a device, measured and by its datasheet, with measured calls under it."""

from __future__ import annotations

from collections import defaultdict

import plotly.graph_objects as go

from kernels.measure.roofline import Roof, RoofPoint
from viz.shared import theme
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
    figure = go.Figure()
    low = min([0.5, *(point.intensity / 2 for point in points)])
    high = max([1000.0, *(2 * roof.ridge for roof in roofs), *(8 * point.intensity for point in points)])
    for roof in roofs:
        _add_roof(figure, roof, low, high, colors)
    calls: dict[tuple, list[RoofPoint]] = defaultdict(list)
    for point in points:
        calls[point.peer, point.direction, point.problem].append(point)
    for call in sorted(
        calls.values(), key=lambda call: -call[0].flops_per_s
    ):  # the fastest first in the legend
        _add_call(figure, call, colors)
    theme.style_figure(figure, colors, height=470)
    figure.update_xaxes(
        type="log", title={"text": "FLOP per byte", "standoff": 4}, dtick=1, exponentformat="power"
    )
    speeds = [10.0**power for power in range(8, 17)]
    words = [f"{format_flops(speed)}/s" for speed in speeds]
    figure.update_yaxes(type="log", dtick=1, tickvals=speeds, ticktext=words)
    figure.update_layout(
        legend={"yref": "container", "y": 0, "yanchor": "bottom", "font_size": 13},
        margin_t=12,
        hovermode="closest",
    )
    return figure


def _add_roof(figure: go.Figure, roof: Roof, low: float, high: float, colors: theme.Palette) -> None:
    intensities = [low, roof.ridge, high]
    words = f"{format_bytes(roof.bytes_per_s)}/s, {format_flops(roof.flops_per_s)}/s"
    measured = {"color": colors.text, "width": 3, "dash": "solid"}
    datasheet = {"color": colors.muted, "width": 2, "dash": "dot"}
    figure.add_scatter(
        x=intensities,
        y=[roof.attainable(intensity) for intensity in intensities],
        mode="lines",
        name=f"{roof.label}: {words}",
        line=measured if roof.origin == "measured" else datasheet,
        hoverinfo="skip",
    )


def _add_call(figure: go.Figure, points: list[RoofPoint], colors: theme.Palette) -> None:
    """The points of one call.

    Its name is in the legend: fused kernels are too close for names beside the marks.
    """
    peer, direction = points[0].peer, points[0].direction
    color = theme.peer_color(peer, colors)
    label = peer_label(peer) + (" backward" if direction == "backward" else "")
    figure.add_scatter(
        x=[point.intensity for point in points],
        y=[point.flops_per_s for point in points],
        mode="lines+markers",
        name=label,
        line={"color": color, "width": 1.5, "dash": "dot"},
        marker={
            "color": color,
            "size": 13,
            "symbol": [SYMBOLS[point.bytes_are] for point in points],
            "line": {"width": 2, "color": color},
        },
        hovertext=[_hover(label, point) for point in points],
        hoverinfo="text",
    )


def _hover(label: str, point: RoofPoint) -> str:
    intensity = f"{significant(point.intensity)} FLOP per byte, {BYTES_WORDS[point.bytes_are]}"
    return f"{label}<br>{intensity}<br>{format_flops(point.flops_per_s)}/s"
