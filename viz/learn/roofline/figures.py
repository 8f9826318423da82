"""Figures of the Roofline chapter: attention's steps under the roof, time by step, the memory hierarchy."""

import itertools
import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from kernels.device.gpus import Gpu
from kernels.measure.roofline import datasheet_roof
from viz.learn.roofline.maths import Step
from viz.shared import theme
from viz.shared.figures.charts import DOWNWARDS, OUTSIDE, chart, lengths, line, log_ticks, note, points, rows
from viz.shared.formats import format_bytes, format_flops, format_ms, significant

STEP_LOOKS = {
    "fused": ("flash", 30),
    "S = QKᵀ": ("key", 21),
    "softmax": ("state", 15),
    "O = PV": ("value", 10),
}
"""Palette entry and size. Steps of nearly the same intensity are drawn around each other, large to small."""
OTHER = ("muted", 13)
CASES = {
    "perfect": ("circle", "●", "at least: every re-read hits L2"),
    "none": ("circle-open", "○", "requested: none does"),
    "beside": ("diamond", "◆", ""),
}
"""The cases of an L2 cache, and the operations beside attention: symbol, sign before names, and legend."""
LEADER = 28
"""Pixels from a dot to its name, across and down."""
NEAR = 1.25
"""Dots whose intensities differ by a smaller factor share one list of names."""
INTENSITIES = (0.1, 100_000.0)
"""Ends of the axis. A fused kernel comes to about N/2 FLOP per byte; the chapter has N up to 65,536."""

Dot = tuple[str, Step]
"""A case of CASES, and what it moves and computes."""


def roofline_figure(
    gpu: Gpu,
    steps: Mapping[str, Sequence[Step]],
    others: Sequence[Gpu],
    colors: theme.Palette,
    more: Sequence[Step] = (),
) -> go.Figure:
    """Attainable FLOP/s over FLOP per byte, log axes. `steps` by L2 case: filled if perfect, else open.

    `others` are roofs of other GPUs, `more` operations beside attention, as diamonds.
    """
    dots = [(case, step) for case, of_case in {**steps, "beside": more}.items() for step in of_case]
    traces = [_roof(other, colors.line, 1.5) for other in others]
    traces.append(_roof(gpu, colors.text, 4))
    for case, step in sorted(dots, key=lambda dot: -_look(dot[1])[1]):
        traces.append(_point(gpu, case, step, colors))
    for case in steps:
        symbol, _, words = CASES[case]
        edge = {"width": 3, "color": colors.text}
        traces.append(points([None], [None], colors.text, 12, symbol, edge, name=words))
    ends = [math.log10(end) for end in INTENSITIES]
    x = {"type": "log", "title": "FLOP per byte of HBM traffic", "dtick": 1, "range": ends}
    rates = [10.0**power for power in range(11, 16)]
    ticks = [f"{format_flops(rate)}/s" for rate in rates]
    y = log_ticks(rates, ticks, title="attainable, modelled", range=[11, 15.9])
    figure = chart(traces, colors, 400, "", x, y)
    figure.add_vline(x=gpu.balance, line={"color": colors.muted, "dash": "dot", "width": 1.5})
    for place, group in enumerate(_groups(dots)):
        _add_names(figure, gpu, group, place % 2 == 0, colors)
    ridge = f"ridge: {significant(gpu.balance)} FLOP/B"
    note(figure, ridge, math.log10(gpu.balance), y=0.02, yref="paper", xanchor="right", xshift=-6)
    return figure


def _look(step: Step) -> tuple[str, int]:
    return STEP_LOOKS.get(step.name, OTHER)


def _point(gpu: Gpu, case: str, step: Step, colors: theme.Palette) -> go.Scatter:
    (color, size), (symbol, _, words) = _look(step), CASES[case]
    rate = datasheet_roof(gpu).attainable(step.intensity)
    fill = getattr(colors, color)
    edge = {"width": 3, "color": fill} if case == "none" else {"width": 2, "color": colors.background}
    hover = (
        f"{step.name}{', ' * bool(words)}{words}<br>{significant(step.intensity)} FLOP per byte<br>"
        f"at most {format_flops(rate)}/s, limited by {step.bound_by(gpu)}<extra></extra>"
    )
    choices = {"name": f"{step.name}, {case}", "showlegend": False, "hovertemplate": hover}
    return points([step.intensity], [rate], fill, size, symbol, edge, **choices)


def _groups(dots: Sequence[Dot]) -> list[list[Dot]]:
    """The dots in groups that lie near each other, from left to right."""
    groups: list[list[Dot]] = []
    for dot in sorted(dots, key=lambda dot: dot[1].intensity):
        if groups and dot[1].intensity < NEAR * groups[-1][-1][1].intensity:
            groups[-1].append(dot)
        else:
            groups.append([dot])
    return groups


def _add_names(figure: go.Figure, gpu: Gpu, group: Sequence[Dot], below: bool, colors: theme.Palette) -> None:
    """The names of a group of dots in one list, a line for each step, with the signs of its dots."""
    lines: dict[str, str] = {}
    for case, step in sorted(group, key=lambda dot: list(CASES).index(dot[0])):
        color = getattr(colors, _look(step)[0])
        lines[step.name] = lines.get(step.name, f'<span style="color:{color}">') + CASES[case][1]
    first = group[0][1]
    on_slope, away = first.intensity < gpu.balance, LEADER if below else -LEADER
    figure.add_annotation(
        x=math.log10(first.intensity),
        y=math.log10(datasheet_roof(gpu).attainable(first.intensity)),
        text="<br>".join(f"{signs} {name}</span>" for name, signs in lines.items()),
        font_size=14,
        align="left",
        xanchor=("left" if below else "right") if on_slope else "center",
        yanchor="top" if below else "bottom",
        ax=away if on_slope else 0,
        ay=away,
        arrowcolor=colors.muted,
        arrowhead=0,
        arrowwidth=1.5,
        standoff=_look(first)[1] / 2,
    )


def _roof(gpu: Gpu, color: str, width: float) -> go.Scatter:
    roof = datasheet_roof(gpu)
    x = [INTENSITIES[0], roof.ridge, INTENSITIES[1]]
    hover = f"{gpu.name}: {format_flops(gpu.fp16_flops)}/s, {format_bytes(gpu.hbm_bandwidth)}/s"
    y = [roof.attainable(value) for value in x]
    return line(x, y, color, width, name=gpu.name, hovertemplate=f"{hover}<extra></extra>")


def times_figure(gpu: Gpu, steps: Sequence[Step], colors: theme.Palette) -> go.Figure:
    """Two bars per step: time to move its bytes and time to do its work, each at the datasheet's peak."""
    bars = [
        rows(
            [step.name for step in steps],
            seconds,
            name=name,
            marker_color=color,
            text=[format_ms(value * 1e3) for value in seconds],
            **OUTSIDE,
            constraintext="none",
            hovertemplate=f"%{{y}}, {name}: %{{text}}<extra></extra>",
        )
        for name, seconds, color in (
            ("moving bytes", [step.memory_seconds(gpu) for step in steps], colors.standard),
            ("computing", [step.compute_seconds(gpu) for step in steps], colors.value),
        )
    ]
    x = lengths(max(step.seconds(gpu) for step in steps), 1.25)
    y = {"tickfont_size": 16, "ticklabelstandoff": 6, **DOWNWARDS}
    return chart(bars, colors, 70 + 62 * len(steps), "", x, y, bargap=0.25)


def hierarchy_figure(gpus: Sequence[Gpu], chosen: Gpu, colors: theme.Palette) -> go.Figure:
    """Capacity over bandwidth, log axes: all SRAM of a GPU, and its HBM. One line per GPU."""
    tones = itertools.cycle((colors.query, colors.key, colors.value, colors.output))
    lines = []
    for gpu, color in zip(gpus, tones, strict=False):
        width, dash, size = (4, "solid", 20) if gpu == chosen else (2, "dot", 12)
        speeds, capacities = (gpu.hbm_bandwidth, gpu.sram_bandwidth), (gpu.hbm_bytes, gpu.sram_bytes)
        words = [
            f"{name}: {format_bytes(capacity)}, {format_bytes(speed)}/s"
            for name, capacity, speed in zip(("HBM", "SRAM"), capacities, speeds, strict=True)
        ]
        lines.append(
            line(
                *(speeds, capacities, color, width, dash),
                mode="lines+markers",
                name=gpu.name,
                marker={"size": size, "symbol": ["square", "diamond"]},
                text=words,
                hovertemplate=f"{gpu.name}<br>%{{text}}<extra></extra>",
            )
        )
    log = {"type": "log", "exponentformat": "SI"}
    ticks = {"tickvals": [1e12, 2e12, 5e12, 1e13, 2e13, 5e13], "range": [12.1, 13.75]}
    x = {"title": "bandwidth, bytes per second", **log, **ticks}
    y = {"title": "capacity, bytes", "dtick": 1, "range": [6.5, 12], **log}
    figure = chart(lines, colors, 380, "", x, y)
    widest, smallest = max(gpu.sram_bandwidth for gpu in gpus), min(gpu.sram_bytes for gpu in gpus)
    slowest, largest = min(gpu.hbm_bandwidth for gpu in gpus), max(gpu.hbm_bytes for gpu in gpus)
    for text, speed, capacity, anchor, shift in (
        ("HBM: large, slow", slowest, largest, "left", 18),
        ("SRAM: small, fast", widest, smallest, "right", -22),
    ):
        place = {"y": math.log10(capacity), "xanchor": anchor, "yshift": shift, "font_size": 16}
        note(figure, text, math.log10(speed), **place)
    return figure
