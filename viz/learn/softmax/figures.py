"""Pictures of the Softmax chapter: the row sum, the row, its passes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from viz.learn.softmax.maths import OnlineStep, PassesRun
from viz.shared import theme
from viz.shared.figures.charts import OUTSIDE, chart, hatched, note
from viz.shared.formats import format_number
from viz.shared.glossary import symbol_class

HEIGHT = 235
BLOCKS: dict[str, Any] = {"tickfont_size": 15, "showgrid": False}


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
            ("terms of this block", [step.added for step in seen], f"{colors.state}73"),  # as on the stage
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
    bars = [
        go.Bar(
            x=_names(seen),
            y=heights,
            name=name,
            marker=marker,
            text=[format_number(height, 4) for height in heights] if len(steps) <= 8 else None,
            **OUTSIDE,
            textangle=0,
            hovertemplate=f"{name}: %{{y:.6g}}<extra></extra>",
        )
        for name, heights, marker in (
            ("rescaled", [step.l for step in seen], hatched(colors.good, "", colors)),
            ("just added", [step.l_unscaled for step in seen], hatched(colors.bad, "x", colors)),
        )
    ]
    highest = 1.12 * max(step.l_unscaled for step in steps)
    return _sums(bars, steps, highest, colors, barmode="group", bargap=0.3)


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
    layout |= {"title_x": 1, "title_xanchor": "right", "title_y": 0.97}
    return chart(bars, colors, HEIGHT, "row sum l", x, y, **layout)


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
