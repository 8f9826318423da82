"""The SM timeline: which program ran when on which streaming multiprocessor."""

from __future__ import annotations

from dataclasses import replace

import plotly.graph_objects as go

from kernels.trace.schedule import ProgramSpan, Schedule
from viz.shared import theme

MAX_SPANS = 4000


def timeline_figure(
    spans: list[ProgramSpan], schedule: Schedule, colors: theme.Palette, by_key: frozenset[str] = frozenset()
) -> go.Figure:
    """A bar a program: SM against time, coloured by its query tile, or by its first key tile in the kernels that `by_key` names."""
    spans = spans[:MAX_SPANS]
    micro = 1e-3 if schedule.measured else 1
    unit = "µs" if schedule.measured else "tile steps"
    tiles = [max(span.kv_tile if span.kernel in by_key else span.q_tile, 0) for span in spans]
    words = ["key tile" if span.kernel in by_key else "query tile" for span in spans]
    order = {sm: place for place, sm in enumerate(sorted({span.sm for span in spans}))}
    bar = {
        "title": {"text": "<br>or ".join(sorted(set(words), reverse=True))},
        "thickness": 12,
        "tickformat": "d",
    }
    figure = go.Figure(
        go.Bar(
            base=[span.start * micro for span in spans],
            x=[(span.end - span.start) * micro for span in spans],
            y=[order[span.sm] for span in spans],
            orientation="h",
            marker={
                "color": tiles, "colorscale": [[i / (len(colors.scale) - 1), color] for i, color in enumerate(colors.scale)],
                "colorbar": bar | {"nticks": min(max(tiles, default=0) + 1, 9)}, "line": {"width": 0.5, "color": colors.background},
            },
            customdata=[(span.sm, span.kernel, f"head {span.batch_head}, {word} {tile}", span.steps, span.start * micro, span.end * micro)
                        for span, word, tile in zip(spans, words, tiles, strict=True)],
            hovertemplate=f"SM %{{customdata[0]}}: %{{customdata[1]}}<br>%{{customdata[2]}}, %{{customdata[3]}} steps<br>"
            f"%{{customdata[4]:.2f}} to %{{customdata[5]:.2f}} {unit}<extra></extra>",
        )
    )  # fmt: skip
    theme.style_figure(
        figure, colors, height=min(150 + 5 * len(order), 620) if len(order) > 6 else 120 + 22 * len(order)
    )
    figure.update_layout(bargap=0.05, showlegend=False, margin_t=12)
    figure.update_xaxes(title=f"time in {unit}")
    figure.update_yaxes(title="SM", showgrid=False, autorange="reversed", showticklabels=False)
    return figure


def without_pauses(spans: list[ProgramSpan]) -> list[ProgramSpan]:
    """The same spans, moved together where nothing runs: between two launches the host is at work, not the GPU."""
    reach, cut = None, 0
    moved = []
    for span in sorted(spans, key=lambda span: span.start):
        cut += max(span.start - reach, 0) if reach is not None else 0
        reach = span.end if reach is None else max(reach, span.end)
        moved.append(replace(span, start=span.start - cut, end=span.end - cut))
    return moved


def busy_share(spans: list[ProgramSpan], sm_count: int) -> float:
    """Part of SM time, from the first start to the last end, in which a program ran; several on one SM at once count once."""
    if not spans:
        return 0.0
    busy = 0
    for sm in {span.sm for span in spans}:
        last = None
        for begin, end in sorted((span.start, span.end) for span in spans if span.sm == sm):
            begin = begin if last is None else max(begin, last)
            busy += max(end - begin, 0)
            last = end if last is None else max(last, end)
    whole = max(span.end for span in spans) - min(span.start for span in spans)
    return busy / (whole * sm_count)
