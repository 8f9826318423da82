"""Figures of Explore: bytes by tensor, the SM timeline."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go

from kernels.algorithms import algorithm_of
from kernels.algorithms.standard.traffic import requested_ledger
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm
from kernels.trace.schedule import ProgramSpan
from kernels.traffic.modelled import whole_traffic
from viz.shared import theme
from viz.shared.figures import charts
from viz.shared.formats import format_bytes, format_count

MAX_SPANS = 4000
"""Most programs that are drawn: those that start first."""
HOVER = (
    "SM %{customdata[0]}: %{customdata[1]}<br>head %{customdata[2]}, %{customdata[3]} %{customdata[4]}, "
    "%{customdata[5]}<br>%{customdata[6]:.2f} to %{customdata[7]:.2f} µs<extra></extra>"
)


def timeline_figure(spans: list[ProgramSpan], algorithm: Algorithm, colors: theme.Palette) -> go.Figure:
    """A bar per program, SM against time, at most MAX_SPANS, in the colour of the tile that it is about."""
    spans = sorted(spans, key=lambda span: span.start)[:MAX_SPANS]
    by_key = {kernel.name for kernel in algorithm.kernels if kernel.stays == "kv_tile" or kernel.splits_keys}
    tiles = [max(span.kv_tile if span.kernel in by_key else span.q_tile, 0) for span in spans]
    words = ["key tile" if span.kernel in by_key else "query tile" for span in spans]
    counts = [format_count(span.steps, "step") for span in spans]
    lines = {sm: line for line, sm in enumerate(sorted({span.sm for span in spans}))}
    details = [
        (span.sm, span.kernel, span.batch_head, word, tile, steps, span.start / 1e3, span.end / 1e3)
        for span, word, tile, steps in zip(spans, words, tiles, counts, strict=True)
    ]
    last = len(colors.scale) - 1
    bars = charts.rows(
        [lines[span.sm] for span in spans],
        [(span.end - span.start) / 1e3 for span in spans],
        base=[span.start / 1e3 for span in spans],
        marker={
            "color": tiles,
            "colorscale": [[i / last, color] for i, color in enumerate(colors.scale)],
            "colorbar": {
                "title": {"text": "<br>or ".join(sorted(set(words), reverse=True))},
                "thickness": 12,
                "tickformat": "d",
                "nticks": min(max(tiles, default=0) + 1, 9),
            },
            "line": {"width": 0.5, "color": colors.background},
        },
        customdata=details,
        hovertemplate=HOVER,
    )
    height = min(150 + 5 * len(lines), 620) if len(lines) > 6 else 120 + 22 * len(lines)
    x, y = {"title": "time in µs"}, {"title": "SM", "showticklabels": False, **charts.DOWNWARDS}
    return charts.chart([bars], colors, height, "", x, y, bargap=0.05, showlegend=False, margin_t=12)


def without_pauses(spans: list[ProgramSpan]) -> list[ProgramSpan]:
    """The same spans without the times in which nothing runs: between two launches only the host works."""
    spans = sorted(spans, key=lambda span: span.start)
    starts, ends = np.array([(span.start, span.end) for span in spans]).reshape(-1, 2).T
    pauses = np.maximum(starts[1:] - np.maximum.accumulate(ends)[:-1], 0)
    cuts = np.cumsum(np.append(0, pauses))[: len(spans)].tolist()
    return [replace(s, start=s.start - cut, end=s.end - cut) for s, cut in zip(spans, cuts, strict=True)]


def busy_share(spans: list[ProgramSpan], sm_count: int) -> float:
    """Part of the SMs' time, first start to last end, in which at least one program ran."""
    if not spans:
        return 0.0
    busy = 0
    for sm in {span.sm for span in spans}:
        joined = without_pauses([span for span in spans if span.sm == sm])
        busy += max(span.end for span in joined) - joined[0].start
    whole = max(span.end for span in spans) - min(span.start for span in spans)
    return busy / (whole * sm_count)


def ledgers_of(trace: Trace, other: Trace | None = None) -> dict[str, dict[str, int]]:
    """Bytes by tensor, reads and writes together, by what to call them ("FlashAttention-2, counted").

    The run's, and the other run's; without one, those of the standard algorithm of its direction.
    """
    if other is not None:
        return _own_ledger(trace) | _own_ledger(other, "B: ")
    direction = algorithm_of(trace).direction
    label = f"standard {'attention' if direction == 'forward' else direction}, modelled"
    return _own_ledger(trace) | {label: requested_ledger(trace.problem, direction)}


def _own_ledger(trace: Trace, mark: str = "") -> dict[str, dict[str, int]]:
    """Of a sampled run, by formula."""
    traffic, algorithm = whole_traffic(trace, algorithm_of(trace)), algorithm_of(trace)
    how = "modelled" if traffic.modelled else "counted"
    return {f"{mark}{algorithm.label}, {how}": traffic.bytes}


def ledger_table(ledgers: Mapping[str, Mapping[str, int]]) -> str:
    """A line per tensor that one of them moves."""
    moved = [*ledgers.values()]
    names = dict.fromkeys(name for each in reversed(moved) for name in each)
    lines = [("tensor", *ledgers), (":--", "--:", "--:")]
    lines += [(name, *(_moved(each.get(name, 0)) for each in moved)) for name in names]
    lines.append(("**all**", *(f"**{_moved(sum(each.values()))}**" for each in moved)))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _moved(size: int) -> str:
    return format_bytes(size) if size else "none"
