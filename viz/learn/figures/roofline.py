"""Figures of the Roofline chapter: attention's steps under the roof, time by step, the memory hierarchy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from kernels.device.gpus import Gpu
from kernels.lessons.roofline import Step
from kernels.measure.roofline import datasheet_roof
from viz.shared import theme
from viz.shared.formats import format_bytes, format_flops, format_ms, significant

STEP_COLORS = {"S = QKᵀ": "key", "softmax": "state", "O = PV": "value", "fused": "flash"}
L2_WORDS = {"perfect": "at least: every re-read hits L2", "none": "requested: none does"}
SIZES = {"fused": 30, "S = QKᵀ": 21, "softmax": 15, "O = PV": 10}
"""Several steps may have nearly the same intensity, so they are drawn around each other, from large to small.
"""
SYMBOLS = {"perfect": "circle", "none": "circle-open"}
BESIDE = "beside"
"""The case of an operation beside attention."""
SIGNS = {"perfect": "●", "none": "○", BESIDE: "◆"}
"""What stands before the name of a dot."""
LEADER = 28
"""Pixels from a dot to its name, across and down."""
NEAR = 1.25
"""Dots whose intensities differ by a smaller factor share one list of names."""
INTENSITIES = (0.1, 100_000.0)
"""Ends of the axis. A fused kernel comes to about N/2 FLOP per byte; the chapter has N up to 65,536."""
BOLD, THIN = {"width": 4, "dash": "solid"}, {"width": 2, "dash": "dot"}


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
    figure = go.Figure()
    for other in others:
        figure.add_trace(_roof(other, colors.line, 1.5))
    figure.add_trace(_roof(gpu, colors.text, 4))
    figure.add_vline(x=gpu.balance, line={"color": colors.muted, "dash": "dot", "width": 1.5})
    for name in SIZES:
        for case, steps_of_case in steps.items():
            for step in steps_of_case:
                if step.name == name:
                    figure.add_trace(_point(gpu, step, case, colors))
    for step in more:
        figure.add_trace(_other_point(gpu, step, colors))
    _add_legend(figure, colors)
    theme.style_figure(figure, colors, height=400)
    _add_names(figure, gpu, {**steps, BESIDE: more}, colors)
    ridge = f"ridge: {significant(gpu.balance)} FLOP/B"
    figure.add_annotation(
        x=math.log10(gpu.balance),
        y=0.02,
        yref="paper",
        text=ridge,
        showarrow=False,
        xanchor="right",
        xshift=-6,
    )
    figure.update_xaxes(
        type="log", title="FLOP per byte of HBM traffic", dtick=1, range=[math.log10(x) for x in INTENSITIES]
    )
    rates = [10.0**power for power in range(11, 16)]
    labels = [f"{format_flops(rate)}/s" for rate in rates]
    figure.update_yaxes(
        type="log", title="attainable, modelled", tickvals=rates, ticktext=labels, range=[11, 15.9]
    )
    return figure


def _add_legend(figure: go.Figure, colors: theme.Palette) -> None:
    """What filled and open circles mean."""
    for case, words in L2_WORDS.items():
        marker = {
            "symbol": SYMBOLS[case],
            "size": 12,
            "color": colors.text,
            "line": {"width": 2, "color": colors.text},
        }
        figure.add_trace(go.Scatter(x=[None], y=[None], mode="markers", name=words, marker=marker))


def _point(gpu: Gpu, step: Step, case: str, colors: theme.Palette) -> go.Scatter:
    """One step on the roof."""
    color, rate = getattr(colors, STEP_COLORS[step.name]), datasheet_roof(gpu).attainable(step.intensity)
    return go.Scatter(
        x=[step.intensity],
        y=[rate],
        mode="markers",
        name=f"{step.name}, {case}",
        showlegend=False,
        marker={
            "symbol": SYMBOLS[case],
            "size": SIZES[step.name],
            "color": color,
            "line": {"width": 3, "color": color}
            if case == "none"
            else {"width": 2, "color": colors.background},
        },
        hovertemplate=f"{step.name}, {L2_WORDS[case]}<br>"
        f"{significant(step.intensity)} FLOP per byte<br>"
        f"at most {format_flops(rate)}/s, limited by {step.bound_by(gpu)}<extra></extra>",
    )


def _groups(dots: Sequence[tuple[str, Step]]) -> list[list[tuple[str, Step]]]:
    """Dots as (case, step) in groups that lie near each other, from left to right."""
    groups: list[list[tuple[str, Step]]] = []
    for dot in sorted(dots, key=lambda dot: dot[1].intensity):
        if groups and dot[1].intensity < NEAR * groups[-1][-1][1].intensity:
            groups[-1].append(dot)
        else:
            groups.append([dot])
    return groups


def _add_names(
    figure: go.Figure, gpu: Gpu, steps: Mapping[str, Sequence[Step]], colors: theme.Palette
) -> None:
    """The names of all dots, in a list for each group of near ones: below the slope and above it in turn."""
    dots = [(case, step) for case, of_case in steps.items() for step in of_case]
    for index, group in enumerate(_groups(dots)):
        intensity, below = group[0][1].intensity, index % 2 == 0
        on_slope, away = intensity < gpu.balance, LEADER if below else -LEADER
        figure.add_annotation(
            x=math.log10(intensity),
            y=math.log10(datasheet_roof(gpu).attainable(intensity)),
            text="<br>".join(_name_lines(group, colors)),
            font_size=14,
            align="left",
            xanchor=("left" if below else "right") if on_slope else "center",
            yanchor="top" if below else "bottom",
            ax=away if on_slope else 0,
            ay=away,
            arrowcolor=colors.muted,
            arrowhead=0,
            arrowwidth=1.5,
            standoff=SIZES.get(group[0][1].name, 0) / 2,
        )


def _name_lines(group: Sequence[tuple[str, Step]], colors: theme.Palette) -> list[str]:
    """A line for each step of a group: the signs of its dots, and its name."""
    cases: dict[str, list[str]] = {}
    for case, step in group:
        cases.setdefault(step.name, []).append(case)
    return [
        f'<span style="color:{getattr(colors, STEP_COLORS.get(name, "muted"))}">'
        f"{''.join(sign for case, sign in SIGNS.items() if case in found)} {name}</span>"
        for name, found in cases.items()
    ]


def _other_point(gpu: Gpu, step: Step, colors: theme.Palette) -> go.Scatter:
    """An operation beside attention."""
    rate = datasheet_roof(gpu).attainable(step.intensity)
    return go.Scatter(
        x=[step.intensity],
        y=[rate],
        mode="markers",
        name=step.name,
        showlegend=False,
        marker={"symbol": "diamond", "size": 13, "color": colors.muted},
        hovertemplate=f"{step.name}<br>{significant(step.intensity)} FLOP per byte<br>"
        f"at most {format_flops(rate)}/s, limited by {step.bound_by(gpu)}<extra></extra>",
    )


def _roof(gpu: Gpu, color: str, width: float) -> go.Scatter:
    roof = datasheet_roof(gpu)
    x = [INTENSITIES[0], roof.ridge, INTENSITIES[1]]
    peak, bandwidth = format_flops(gpu.fp16_flops), format_bytes(gpu.hbm_bandwidth)
    return go.Scatter(
        x=x,
        y=[roof.attainable(value) for value in x],
        mode="lines",
        name=gpu.name,
        line={"color": color, "width": width},
        hovertemplate=f"{gpu.name}: {peak}/s, {bandwidth}/s<extra></extra>",
    )


def times_figure(gpu: Gpu, steps: Sequence[Step], colors: theme.Palette) -> go.Figure:
    """Two bars per step: time to move its bytes and time to do its work, each at the datasheet's peak."""
    figure = go.Figure()
    longest = max(step.seconds(gpu) for step in steps)
    for name, seconds, color in (
        ("moving bytes", [step.memory_seconds(gpu) for step in steps], "standard"),
        ("computing", [step.compute_seconds(gpu) for step in steps], "value"),
    ):
        figure.add_trace(
            go.Bar(
                name=name,
                y=[step.name for step in steps],
                x=seconds,
                orientation="h",
                marker_color=getattr(colors, color),
                text=[format_ms(value * 1e3) for value in seconds],
                textposition="outside",
                textfont={"color": colors.text, "size": 14},
                constraintext="none",
                cliponaxis=False,
                hovertemplate=f"%{{y}}, {name}: %{{text}}<extra></extra>",
            )
        )
    theme.style_figure(figure, colors, height=70 + 62 * len(steps))
    figure.update_xaxes(showticklabels=False, showgrid=False, range=[0, 1.25 * longest])
    figure.update_yaxes(autorange="reversed", tickfont_size=16, showgrid=False, ticklabelstandoff=6)
    figure.update_layout(bargap=0.25)
    return figure


def hierarchy_figure(gpus: Sequence[Gpu], chosen: Gpu, colors: theme.Palette) -> go.Figure:
    """Capacity over bandwidth, log axes: all SRAM of a GPU, and its HBM. One line per GPU."""
    figure = go.Figure()
    tones = (colors.query, colors.key, colors.value, colors.output)
    for index, gpu in enumerate(gpus):
        bold = gpu == chosen
        figure.add_trace(
            go.Scatter(
                x=[gpu.hbm_bandwidth, gpu.sram_bandwidth],
                y=[gpu.hbm_bytes, gpu.sram_bytes],
                mode="lines+markers",
                name=gpu.name,
                line={"color": tones[index % len(tones)]} | (BOLD if bold else THIN),
                marker={"size": 20 if bold else 12, "symbol": ["square", "diamond"]},
                text=[
                    f"HBM: {format_bytes(gpu.hbm_bytes)}, {format_bytes(gpu.hbm_bandwidth)}/s",
                    f"SRAM: {format_bytes(gpu.sram_bytes)}, {format_bytes(gpu.sram_bandwidth)}/s",
                ],
                hovertemplate=f"{gpu.name}<br>%{{text}}<extra></extra>",
            )
        )
    theme.style_figure(figure, colors, height=380)
    widest, smallest = max(gpu.sram_bandwidth for gpu in gpus), min(gpu.sram_bytes for gpu in gpus)
    slowest, largest = min(gpu.hbm_bandwidth for gpu in gpus), max(gpu.hbm_bytes for gpu in gpus)
    for words, corner, anchor, shift in (
        ("HBM: large, slow", (slowest, largest), "left", 18),
        ("SRAM: small, fast", (widest, smallest), "right", -22),
    ):
        x, y = map(math.log10, corner)
        figure.add_annotation(
            text=words, x=x, y=y, xanchor=anchor, yshift=shift, showarrow=False, font_size=16
        )
    figure.update_xaxes(
        type="log",
        title="bandwidth, bytes per second",
        exponentformat="SI",
        tickvals=[1e12, 2e12, 5e12, 1e13, 2e13, 5e13],
        range=[12.1, 13.75],
    )
    figure.update_yaxes(type="log", title="capacity, bytes", exponentformat="SI", dtick=1, range=[6.5, 12])
    return figure
