"""Pictures of the Softmax chapter: where exp overflows, the row sum, the weights, the row, its passes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from viz.learn.softmax.maths import OnlineStep, PassesRun
from viz.shared import theme
from viz.shared.figures.charts import ABOVE, DOWNWARDS, OUTSIDE, chart, hatched, lengths, note, points
from viz.shared.formats import format_number
from viz.shared.glossary import symbol_class

HEIGHT = 235
BLOCKS: dict[str, Any] = {"tickfont_size": 15, "showgrid": False}
TO_THE_RIGHT: dict[str, Any] = {"title_x": 1, "title_xanchor": "right", "title_y": 0.97}


def overflow_figure(
    x: np.ndarray, limits: tuple[float, float], number_format: str, colors: theme.Palette
) -> go.Figure:
    """Exponents on two lines, x and x - max(x), with the zones in which exp is infinite or rounds to zero."""
    low, high = limits
    exponents = {"x": x, "x − max": x - x.max()}
    everything = np.concatenate([*exponents.values(), [low, high]])
    reach = 0.12 * np.ptp(everything)
    left, right = everything.min() - reach, everything.max() + reach
    traces = []
    for name, values in exponents.items():
        outside = (values > high) | (values < low)
        fill, symbol = np.where(outside, colors.bad, colors.query), np.where(outside, "x", "circle")
        look = (fill, 16, symbol, {"color": colors.background, "width": 1})
        hover = f"{name} = %{{x:.6g}}<extra></extra>"
        traces.append(points(values, [name] * len(values), *look, name=name, hovertemplate=hover))
    smallest, largest = (f"e<sup>{format_number(limit)}</sup>" for limit in limits)
    title = f"exponent: {number_format} holds {smallest} to {largest}"
    across = {"range": [left, right], "title": title, "showgrid": False, "zeroline": True}
    up = DOWNWARDS | {"tickfont_size": 16}
    figure = chart(traces, colors, 170, "", across, up, showlegend=False, margin_t=28)
    for start, end, color, words, side in (
        (high, right, colors.bad, "exp is ∞", "right"),
        (left, low, colors.muted, "exp is 0", "left"),
    ):
        figure.add_vrect(start, end, fillcolor=color, opacity=0.16, line_width=0)
        outer = end if side == "right" else start
        note(figure, words, outer, xanchor=side, font={"color": color, "size": 16}, **ABOVE)
    return figure


def sum_figure(steps: tuple[OnlineStep, ...], now: int, colors: theme.Palette) -> go.Figure:
    """The row sum l after each block up to `now`: the rescaled old sum, and on it the terms of the block."""
    seen = steps[: now + 1]
    edge = {"opacity": [0.5] * now + [1.0], "line": {"color": colors.background, "width": 1}}
    bars = [
        go.Bar(
            x=_names(seen),
            y=values,
            name=label,
            marker={"color": color, **edge},
            hovertemplate=f"%{{x}}, {label}: %{{y:.6g}}<extra></extra>",
        )
        for label, values, color in (
            ("α · old sum", [step.alpha * step.l_before for step in seen], colors.state),
            ("terms of this block", [step.added for step in seen], colors.now),
        )
    ]
    figure = _sums(bars, steps, max(step.l for step in steps), colors, bargap=0.55, barmode="stack")
    for index, step in enumerate(seen if len(steps) <= 16 else ()):
        if index:
            _drop(figure, index, step, colors)
        if index and len(steps) <= 8:
            words, look = f"× {format_number(step.alpha)}", {"size": 15, "color": colors.state}
            note(figure, words, index - 0.5, y=step.l_before, yanchor="bottom", font=look)
        note(figure, f"<b>{format_number(step.l, 4)}</b>", index, y=step.l, yanchor="bottom", font_size=16)
    return figure


def _drop(figure: go.Figure, index: int, step: OnlineStep, colors: theme.Palette) -> None:
    """Between two bars: the old sum at its old height, and an arrow down to its rescaled height."""
    after, middle = step.alpha * step.l_before, index - 0.5
    line = {"color": colors.state, "dash": "dot", "width": 2}
    for height, start, end in ((step.l_before, -0.75, -0.4), (after, -0.6, -0.25)):
        figure.add_shape(type="line", x0=index + start, x1=index + end, y0=height, y1=height, line=line)
    if step.alpha < 1:
        arrow = {"arrowhead": 2, "arrowwidth": 2, "arrowcolor": colors.state}
        ends = {"x": middle, "y": after, "ax": middle, "ay": step.l_before, "axref": "x", "ayref": "y"}
        figure.add_annotation(text="", showarrow=True, **ends, **arrow)


def unscaled_figure(steps: tuple[OnlineStep, ...], now: int, colors: theme.Palette) -> go.Figure:
    """The row sum with and without the rescale, after each block up to `now`."""
    seen = steps[: now + 1]
    values = {"rescaled": [step.l for step in seen], "just added": [step.l_unscaled for step in seen]}
    bars = _right_and_wrong(_names(seen), values, 4, len(steps) <= 8, colors)
    highest = 1.12 * max(step.l_unscaled for step in steps)
    return _sums(bars, steps, highest, colors, barmode="group", bargap=0.3)


def weights_figure(x: np.ndarray, right: np.ndarray, wrong: np.ndarray, colors: theme.Palette) -> go.Figure:
    """The weight of each number (n,): softmax, and what an accumulator without rescale gives."""
    positions = np.arange(len(x))
    bars = _right_and_wrong(positions, {"softmax": right, "just added": wrong}, 3, len(x) <= 8, colors)
    shown = positions[:: 1 + len(x) // 16]
    words = [format_number(x[position], 6) for position in shown]
    across = BLOCKS | {"tickvals": shown, "ticktext": words, "zeroline": False}
    up = lengths(max(right.max(), wrong.max()), 1.18)
    return chart(bars, colors, HEIGHT, "weight of each score", across, up, bargap=0.25, **TO_THE_RIGHT)


def _right_and_wrong(
    x: Sequence | np.ndarray,
    values: Mapping[str, Sequence | np.ndarray],
    digits: int,
    with_text: bool,
    colors: theme.Palette,
) -> list[go.Bar]:
    looks = (hatched(colors.good, "", colors), hatched(colors.bad, "x", colors))
    return [
        go.Bar(
            x=x,
            y=heights,
            name=name,
            marker=marker,
            text=[format_number(height, digits) for height in heights] if with_text else None,
            **OUTSIDE,
            textangle=0,
            hovertemplate=f"{name}: %{{y:.6g}}<extra></extra>",
        )
        for (name, heights), marker in zip(values.items(), looks, strict=True)
    ]


def _names(steps: Sequence[OnlineStep]) -> list[str]:
    return [f"block {index}" for index in range(len(steps))]


def _sums(
    bars: Sequence[go.Bar],
    steps: tuple[OnlineStep, ...],
    highest: float,
    colors: theme.Palette,
    **layout: Any,
) -> go.Figure:
    """Bars over the blocks, on axes that stay the same while blocks are added."""
    ends = [-0.6, max(len(steps), 2) - 0.4]
    x = BLOCKS | {"range": ends, "categoryorder": "array", "categoryarray": _names(steps)}
    y = {"range": [0, 1.15 * highest], "rangemode": "tozero"}
    return chart(bars, colors, HEIGHT, "row sum l", x, y, **TO_THE_RIGHT, **layout)


def row_html(x: np.ndarray, steps: tuple[OnlineStep, ...], now: int) -> str:
    """The row x (n,) in blocks, seen, at work (`now`) or waiting; below each number its exp(x - m)."""
    m, drawn = steps[now].m, '<div class="names"><span>x</span><span>e<sup>x−m</sup></span></div>'
    for index, step in enumerate(steps):
        look = "now" if index == now else "seen" if index < now else "waiting"
        numbers = ""
        for value in x[step.start : step.end]:
            under = "·" if look == "waiting" else format_number(np.exp(value - m))
            top = f"top {symbol_class('m')}" if look != "waiting" and value == m else ""
            numbers += f'<div class="{top}"><b>{format_number(value, 6)}</b><span>{under}</span></div>'
        drawn += f'<div class="block {look}">{numbers}</div>'
    state = "".join(
        f'<div class="{symbol_class(name)}"><b>{format_number(value, digits)}</b><span>{name}</span></div>'
        for name, value, digits in (("m", m, 6), ("α", steps[now].alpha, 4), ("l", steps[now].l, 4))
    )
    return f'<div class="score-row">{drawn}<div class="state">{state}</div></div>'


def passes_html(ways: dict[str, PassesRun], reads_done: int) -> str:
    """Each way with a strip of blocks per pass after `reads_done` reads: read, being read, or unread."""
    drawn = ""
    for name, run in ways.items():
        reads, blocks = len(run.known), len(run.known) // len(run.passes)
        done = min(reads_done, reads)
        is_done = done == reads
        looks = ["read"] * (done - 1) + ["read" if is_done else "reading"] + ["unread"] * (reads - done)
        strips = ""
        for index, finds in enumerate(run.passes):
            strip = "".join(f'<i class="{look}"></i>' for look in looks[index * blocks :][:blocks])
            strips += f'<div class="strip"><span class="finds">pass {index + 1}: {finds}</span>{strip}</div>'
        known = run.known[done - 1].items()
        values = (f"{key} = {'?' if value is None else format_number(value, 4)}" for key, value in known)
        scores = f", {run.elements_read:,} scores" if is_done else ""
        drawn += (
            f'<section class="{"done" * is_done}"><h4>{name}</h4>{strips}'
            f"<p><b>{' &nbsp; '.join(values)}</b><br>{done} of {reads} blocks read{scores}</p></section>"
        )
    return f'<div class="pass-ways">{drawn}</div>'
