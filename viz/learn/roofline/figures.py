"""The figure of the Roofline chapter: attention's steps under the roof."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from kernels.device.gpus import Gpu
from kernels.measure.roofline import datasheet_roof
from viz.learn.roofline.maths import Step
from viz.shared import theme
from viz.shared.figures import charts
from viz.shared.formats import format_bytes, format_flops, significant

LOOKS = {
    "fused": ("flash", 30, "circle"),
    "S = QKᵀ": ("key", 21, "circle"),
    "softmax": ("state", 15, "circle"),
    "O = PV": ("value", 10, "circle"),
    "elementwise": ("muted", 13, "diamond"),
    "layer norm": ("muted", 13, "square"),
    "convolution 3 × 3": ("muted", 13, "cross"),
    "plain product": ("muted", 13, "triangle-up"),
}
"""Palette entry, size and symbol. Steps of nearly the same intensity lie one in the other."""
CASES = {"perfect": "at least: every re-read hits L2", "none": "requested: none does", "beside": ""}
"""The cases of an L2 cache in words, and the operations beside attention; the dots of "none" are open."""
INTENSITIES = (0.1, 100_000.0)
"""Ends of the axis. A fused kernel comes to about N/2 FLOP per byte; the chapter has N up to 65,536."""


def roofline_figure(
    gpu: Gpu,
    steps: Mapping[str, Sequence[Step]],
    others: Sequence[Gpu],
    colors: theme.Palette,
    more: Sequence[Step] = (),
) -> go.Figure:
    """Attainable FLOP/s over FLOP per byte, log axes. `steps` by L2 case: filled if perfect, else open.

    `others` are roofs of other GPUs, `more` operations beside attention.
    """
    every = {**steps, "beside": more}
    dots = sorted(
        ((case, step) for case in every for step in every[case]), key=lambda dot: -LOOKS[dot[1].name][1]
    )
    named = {step.name: case for case, step in reversed(dots)}  # the first of a name is in the legend
    names = ", ".join(other.name for other in others)  # one entry of the legend: their lines look alike
    traces = [_roof(other, colors.line, 1.5, name=names, showlegend=other == others[0]) for other in others]
    traces.append(_roof(gpu, colors.text, 4, name=gpu.name))
    traces += [_point(gpu, case, step, colors, named[step.name] == case) for case, step in dots]
    for case in steps:
        look = (colors.text, 12, _symbol("circle", case), {"width": 3, "color": colors.text})
        traces.append(charts.points([None], [None], *look, name=CASES[case]))
    ends = [math.log10(end) for end in INTENSITIES]
    x = {"type": "log", "title": "FLOP per byte", "dtick": 1, "range": ends}
    rates = [10.0**power for power in range(11, 16)]
    ticks = [f"{format_flops(rate)}/s" for rate in rates]
    y = charts.log_ticks(rates, ticks, title="attainable, modelled", range=[11, 15.9])
    figure = charts.chart(traces, colors, 460, "", x, y, legend=charts.LEGEND_BELOW, margin_t=12)
    figure.add_vline(x=gpu.balance, line={"color": colors.muted, "dash": "dot", "width": 1.5})
    ridge = f"ridge: {significant(gpu.balance)} FLOP/B"
    charts.note(figure, ridge, math.log10(gpu.balance), y=0.02, yref="paper", xanchor="right", xshift=-6)
    return figure


def _symbol(symbol: str, case: str) -> str:
    return f"{symbol}-open" if case == "none" else symbol


def _point(gpu: Gpu, case: str, step: Step, colors: theme.Palette, showlegend: bool) -> go.Scatter:
    (color, size, symbol), words = LOOKS[step.name], CASES[case]
    rate = datasheet_roof(gpu).attainable(step.intensity)
    fill = getattr(colors, color)
    edge = {"width": 3, "color": fill} if case == "none" else {"width": 2, "color": colors.background}
    hover = (
        f"{step.name}{', ' * bool(words)}{words}<br>{significant(step.intensity)} FLOP per byte<br>"
        f"at most {format_flops(rate)}/s, limited by {step.bound_by(gpu)}<extra></extra>"
    )
    choices = {"name": step.name, "showlegend": showlegend, "hovertemplate": hover}
    return charts.points([step.intensity], [rate], fill, size, _symbol(symbol, case), edge, **choices)


def _roof(gpu: Gpu, color: str, width: float, **choices: Any) -> go.Scatter:
    roof = datasheet_roof(gpu)
    x = [INTENSITIES[0], roof.ridge, INTENSITIES[1]]
    hover = f"{gpu.name}: {format_flops(gpu.fp16_flops)}/s, {format_bytes(gpu.hbm_bandwidth)}/s"
    y = [roof.attainable(value) for value in x]
    return charts.line(x, y, color, width, hovertemplate=f"{hover}<extra></extra>", **choices)
