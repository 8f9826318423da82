"""The roofline of a device, measured and by its datasheet, with measured calls under it."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from kernels.measure.roofline import Roof, RoofPoint
from viz.measure.figures.sweep import peer_label
from viz.shared import theme

SYMBOLS = {"counted": "circle", "DRAM": "diamond", "modelled": "circle-open"}
BYTES_WORDS = {
    "counted": "requested bytes (counted)",
    "DRAM": "DRAM bytes (hardware counters)",
    "modelled": "modelled bytes",
}


def roofline_figure(roofs: list[Roof], points: list[RoofPoint], colors: theme.Palette) -> go.Figure:
    """FLOP/s over FLOP per byte, both on log axes. The two points of one call are joined: what lies between them the L2 served."""
    figure = go.Figure()
    low = min([0.5, *(point.intensity / 2 for point in points)])
    high = max([1000.0, *(2 * roof.ridge for roof in roofs), *(8 * point.intensity for point in points)])
    for roof in roofs:
        _add_roof(figure, roof, low, high, colors)
    calls = {}
    for point in points:
        calls.setdefault((point.peer, point.direction, point.problem), []).append(point)
    for (peer, direction, _), of_call in sorted(
        calls.items(), key=lambda call: -call[1][0].flops_per_s
    ):  # the legend names the fastest first
        _add_call(figure, peer, direction, of_call, colors)
    theme.style_figure(figure, colors, height=470)
    figure.update_xaxes(
        type="log", title={"text": "FLOP per byte", "standoff": 4}, dtick=1, exponentformat="power"
    )
    figure.update_yaxes(type="log", dtick=1, tickvals=[10.0**power for power in range(8, 17)])
    figure.update_yaxes(ticktext=[f"{theme.format_flops(10.0**power)}/s" for power in range(8, 17)])
    figure.update_layout(
        legend={"yref": "container", "y": 0, "yanchor": "bottom", "font_size": 13},
        margin_t=12,
        hovermode="closest",
    )
    return figure


def _add_roof(figure: go.Figure, roof: Roof, low: float, high: float, colors: theme.Palette) -> None:
    xs = np.array([low, roof.ridge, high])
    measured = roof.origin == "measured"
    words = f"{theme.format_bytes(roof.bytes_per_s)}/s, {theme.format_flops(roof.flops_per_s)}/s"
    figure.add_scatter(
        x=xs, y=[roof.attainable(x) for x in xs], mode="lines", name=f"{roof.label}: {words}", hoverinfo="skip",
        line={"color": colors.text if measured else colors.muted, "width": 3 if measured else 2, "dash": "solid" if measured else "dot"},
    )  # fmt: skip


def _add_call(
    figure: go.Figure, peer: str, direction: str, points: list[RoofPoint], colors: theme.Palette
) -> None:
    """A call, named in the legend: fused kernels are so close to each other that names beside their marks would cover one another."""
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
    return f"{label}<br>{theme.significant(point.intensity)} FLOP per byte, {BYTES_WORDS[point.bytes_are]}<br>{theme.format_flops(point.flops_per_s)}/s"
