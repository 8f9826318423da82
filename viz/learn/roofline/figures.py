"""Figures of the Roofline chapter: attention's steps under the roof, time by step, the memory hierarchy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from kernels.device.gpus import Gpu
from kernels.measure.roofline import datasheet_roof
from viz.learn.roofline.maths import Step
from viz.shared import theme
from viz.shared.figures.charts import DOWNWARDS, OUTSIDE, chart, lengths, line, log_ticks, mark, note, rows
from viz.shared.formats import format_bytes, format_flops, format_ms, significant

STEP_COLORS = {"S = QKᵀ": "key", "softmax": "state", "O = PV": "value", "fused": "flash"}
SIZES = {"fused": 30, "S = QKᵀ": 21, "softmax": 15, "O = PV": 10}
"""Several steps may have nearly the same intensity, so they are drawn around each other, large to small."""
OTHER_SIZE = 13


class Case(NamedTuple):
    """How the dots of one case look, the sign before their names, and the words of the legend."""

    symbol: str
    sign: str
    words: str = ""


CASES = {
    "perfect": Case("circle", "●", "at least: every re-read hits L2"),
    "none": Case("circle-open", "○", "requested: none does"),
    "beside": Case("diamond", "◆"),
}
"""The cases of an L2 cache, and the operations beside attention."""
LEADER = 28
"""Pixels from a dot to its name, across and down."""
NEAR = 1.25
"""Dots whose intensities differ by a smaller factor share one list of names."""
INTENSITIES = (0.1, 100_000.0)
"""Ends of the axis. A fused kernel comes to about N/2 FLOP per byte; the chapter has N up to 65,536."""
BOLD, THIN = (4, "solid"), (2, "dot")
"""Width and dash of a line."""

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
    large_first = sorted(dots, key=lambda dot: -SIZES.get(dot[1].name, 0))
    traces = [_roof(other, colors.line, 1.5) for other in others]
    traces.append(_roof(gpu, colors.text, 4))
    traces += [_point(gpu, case, step, colors) for case, step in large_first]
    for case in steps:
        marker = _marker(case, colors.text, 12, colors.text)
        traces.append(go.Scatter(x=[None], y=[None], mode="markers", name=CASES[case].words, marker=marker))
    ends = [math.log10(end) for end in INTENSITIES]
    x = {"type": "log", "title": "FLOP per byte of HBM traffic", "dtick": 1, "range": ends}
    rates = [10.0**power for power in range(11, 16)]
    words = [f"{format_flops(rate)}/s" for rate in rates]
    y = log_ticks(rates, words, title="attainable, modelled", range=[11, 15.9])
    figure = chart(traces, colors, 400, "", x, y)
    figure.add_vline(x=gpu.balance, line={"color": colors.muted, "dash": "dot", "width": 1.5})
    for place, group in enumerate(_groups(dots)):
        _add_names(figure, gpu, group, place % 2 == 0, colors)
    ridge = f"ridge: {significant(gpu.balance)} FLOP/B"
    note(figure, ridge, math.log10(gpu.balance), y=0.02, yref="paper", xanchor="right", xshift=-6)
    return figure


def _marker(case: str, color: str, size: int, edge: str) -> dict:
    return mark(color, size, CASES[case].symbol, {"width": 3 if case == "none" else 2, "color": edge})


def _point(gpu: Gpu, case: str, step: Step, colors: theme.Palette) -> go.Scatter:
    """One dot on the roof."""
    rate = datasheet_roof(gpu).attainable(step.intensity)
    color = getattr(colors, STEP_COLORS.get(step.name, "muted"))
    edge = color if case == "none" else colors.background
    what = ", ".join(filter(None, (step.name, CASES[case].words)))
    return go.Scatter(
        x=[step.intensity],
        y=[rate],
        mode="markers",
        name=f"{step.name}, {case}",
        showlegend=False,
        marker=_marker(case, color, SIZES.get(step.name, OTHER_SIZE), edge),
        hovertemplate=f"{what}<br>{significant(step.intensity)} FLOP per byte<br>"
        f"at most {format_flops(rate)}/s, limited by {step.bound_by(gpu)}<extra></extra>",
    )


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
    signs: dict[str, str] = {}
    for case, step in sorted(group, key=lambda dot: list(CASES).index(dot[0])):
        signs[step.name] = signs.get(step.name, "") + CASES[case].sign
    lines = [
        f'<span style="color:{getattr(colors, STEP_COLORS.get(name, "muted"))}">{sign} {name}</span>'
        for name, sign in signs.items()
    ]
    first = group[0][1]
    on_slope, away = first.intensity < gpu.balance, LEADER if below else -LEADER
    figure.add_annotation(
        x=math.log10(first.intensity),
        y=math.log10(datasheet_roof(gpu).attainable(first.intensity)),
        text="<br>".join(lines),
        font_size=14,
        align="left",
        xanchor=("left" if below else "right") if on_slope else "center",
        yanchor="top" if below else "bottom",
        ax=away if on_slope else 0,
        ay=away,
        arrowcolor=colors.muted,
        arrowhead=0,
        arrowwidth=1.5,
        standoff=SIZES.get(first.name, 0) / 2,
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
        (width, dash), size = (BOLD, 20) if gpu == chosen else (THIN, 12)
        memories = {"HBM": (gpu.hbm_bandwidth, gpu.hbm_bytes), "SRAM": (gpu.sram_bandwidth, gpu.sram_bytes)}
        speeds, capacities = zip(*memories.values(), strict=True)
        lines.append(
            line(
                *(speeds, capacities, color, width, dash),
                mode="lines+markers",
                name=gpu.name,
                marker={"size": size, "symbol": ["square", "diamond"]},
                text=[
                    f"{name}: {format_bytes(capacity)}, {format_bytes(speed)}/s"
                    for name, (speed, capacity) in memories.items()
                ],
                hovertemplate=f"{gpu.name}<br>%{{text}}<extra></extra>",
            )
        )
    ticks = [1e12, 2e12, 5e12, 1e13, 2e13, 5e13]
    log = {"type": "log", "exponentformat": "SI"}
    x = log | {"title": "bandwidth, bytes per second", "tickvals": ticks, "range": [12.1, 13.75]}
    figure = chart(
        lines, colors, 380, "", x, log | {"title": "capacity, bytes", "dtick": 1, "range": [6.5, 12]}
    )
    widest, smallest = max(gpu.sram_bandwidth for gpu in gpus), min(gpu.sram_bytes for gpu in gpus)
    slowest, largest = min(gpu.hbm_bandwidth for gpu in gpus), max(gpu.hbm_bytes for gpu in gpus)
    for words, speed, capacity, anchor, shift in (
        ("HBM: large, slow", slowest, largest, "left", 18),
        ("SRAM: small, fast", widest, smallest, "right", -22),
    ):
        y = math.log10(capacity)
        note(figure, words, math.log10(speed), y=y, xanchor=anchor, yshift=shift, font_size=16)
    return figure
