"""Figures of Explore: the state of rows and of gradient tiles, bytes by tensor, the SM timeline."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from kernels.algorithms import algorithm_of
from kernels.algorithms.standard.traffic import requested_ledger
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm, RecordedSum
from kernels.trace.schedule import ProgramSpan
from kernels.traffic.modelled import whole_traffic
from viz.shared import theme
from viz.shared.figures import charts
from viz.shared.formats import format_bytes, format_count, format_number

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


ORDER = (
    *("Q", "K", "V", "S", "P", "dP", "dS", "O", "partial O", "dO"),
    *("m", "l", "lse", "partial lse", "D", "dQ", "dK", "dV"),
)


@dataclass(frozen=True)
class Ledger:
    """Bytes by tensor, reads and writes together, and what to call them ("FlashAttention-2, counted")."""

    label: str
    bytes: dict[str, int]
    modelled: bool = False


def ledgers_of(trace: Trace, other: Trace | None = None) -> tuple[Ledger, Ledger]:
    """The run's ledger, and the other run's; without one, that of the standard algorithm of its direction."""
    if other is not None:
        return _own_ledger(trace), _own_ledger(other, "B: ")
    direction = algorithm_of(trace).direction
    label = f"standard {'attention' if direction == 'forward' else direction}, modelled"
    return _own_ledger(trace), Ledger(label, requested_ledger(trace.problem, direction), modelled=True)


def _own_ledger(trace: Trace, mark: str = "") -> Ledger:
    """The ledger of a run, under its label; of a sampled one, by formula."""
    traffic, algorithm = whole_traffic(trace, algorithm_of(trace)), algorithm_of(trace)
    how = "modelled" if traffic.modelled else "counted"
    return Ledger(f"{mark}{algorithm.label}, {how}", traffic.bytes, traffic.modelled)


def ledger_figure(first: Ledger, second: Ledger, colors: theme.Palette) -> go.Figure:
    """Two bars per tensor that either of them moves. A tensor that an algorithm never moves has no bar."""
    moved = first.bytes | second.bytes
    names = sorted(moved, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    bars = [
        _ledger_bars(second, names, colors.standard, colors),
        _ledger_bars(first, names, colors.flash, colors),
    ]
    x = charts.lengths(max(*first.bytes.values(), *second.bytes.values(), 1), 1.18)
    y = {"autorange": "reversed", "tickfont_size": 15}
    legend = {"traceorder": "reversed", "orientation": "v"}
    return charts.chart(bars, colors, 110 + 44 * len(names), "", x, y, bargap=0.2, legend=legend)


def _ledger_bars(ledger: Ledger, names: list[str], color: str, colors: theme.Palette) -> go.Bar:
    values = [ledger.bytes.get(name, 0) for name in names]
    return charts.rows(
        names,
        values,
        name=f"{ledger.label}: {format_bytes(sum(values))}",
        marker=charts.hatched(color, "/" if ledger.modelled else "", colors),
        text=[format_bytes(value) if value else "none" for value in values],
        **charts.OUTSIDE,
        textfont_size=12,
        constraintext="none",
        hovertemplate="%{y}: %{text}<extra></extra>",
    )


ROW_STATE = {"row max m": ("row_max", "m", "linear"), "row sum l": ("row_sum", "l", "log")}
"""By title: the field of Trace, the name that the phases have for it, and the scale of its axis."""
DISTANCE = "distance from the final output"
GRADIENTS = {"d_query": ("dQ", 0), "d_key": ("dK", 1), "d_value": ("dV", 2)}
"""By the result that a sum ends as: its name, and its column of Trace.gradient_distance."""
SPREAD = 5
MOST_DECADES = 8
"""Powers of ten that have a tick on a log axis; of more, every second, third, ... has one."""
MOST_MARKERS = 64
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")


class Line(NamedTuple):
    """A line of a figure: its name, and x and y of its points. It is broken where y is NaN."""

    name: str
    x: np.ndarray
    y: np.ndarray


def spread_rows(trace: Trace) -> list[tuple[int, int]]:
    """(batch_head, row) of SPREAD rows, spread evenly over those of the first head that were recorded."""
    recorded = trace.row_max if trace.row_max is not None else trace.row_share
    if recorded is None:
        return []
    head = trace.batch_head[0]
    known = (trace.batch_head == head) & (trace.q_tile >= 0)
    step, offset = np.nonzero(~np.isnan(recorded) & known[:, None])
    rows = np.unique(trace.q_tile[step] * trace.problem.block_m + offset)
    return [(int(head), int(row)) for row in rows[charts.evenly_spaced(len(rows), SPREAD)]]


def state_figures(trace: Trace, colors: theme.Palette) -> dict[str, go.Figure]:
    """Figures by title: of rows for a forward pass, of gradient tiles for a backward pass."""
    is_backward = trace.gradient_distance is not None
    return (gradient_figures if is_backward else row_state_figures)(trace, colors)


def row_state_figures(
    trace: Trace, colors: theme.Palette, rows: list[tuple[int, int]] | None = None
) -> dict[str, go.Figure]:
    """A figure for each running quantity: a line per row, broken between the parts of split keys."""
    figures = {}
    for title, field, kernel, scale in _running_values(trace):
        lines = [_row_line(trace, kernel, field, *row) for row in rows or spread_rows(trace)]
        figures[title] = _figure(title, "key tile", lines, scale, colors)
    return figures


def _running_values(trace: Trace) -> Iterator[tuple[str, str, int, str]]:
    """Title, field of Trace, index of the kernel that changes it step by step, and scale of the axis."""
    kernels = algorithm_of(trace).kernels
    for title, (field, name, scale) in ROW_STATE.items():
        for index, kernel in enumerate(kernels):
            changes = any(name in phase.makes for phase in kernel.step)
            if field in kernel.row_fields and changes and getattr(trace, field) is not None:
                yield title, field, index, scale
                break
    sums = [index for index, kernel in enumerate(kernels) if any(s.result == "output" for s in kernel.sums)]
    if trace.output_distance is not None and sums:
        yield DISTANCE, "output_distance", sums[0], "log"


def _row_line(trace: Trace, kernel: int, field: str, batch_head: int, row: int) -> Line:
    algorithm, values = algorithm_of(trace), getattr(trace, field)
    q_tile, offset = divmod(row, trace.problem.block_m)
    of_tile = (trace.kernel == kernel) & (trace.batch_head == batch_head) & (trace.q_tile == q_tile)
    steps = np.flatnonzero(of_tile & (trace.kv_tile >= 0) & ~np.isnan(values[:, offset]))
    x, y = trace.kv_tile[steps], values[steps, offset]
    if algorithm.kernels[kernel].splits_keys:
        breaks = np.flatnonzero(np.diff(trace.program[steps])) + 1
        x, y = np.insert(x, breaks, x[breaks]), np.insert(y, breaks, np.nan)
    name, group = f"row {row}", trace.problem.group_size
    if algorithm.packs_heads and group > 1:  # rows of several heads are packed into a tile
        member, query = divmod(row, trace.problem.q_len)
        name = f"head {batch_head * group + member}, query {query}"
    return Line(name, x, y)


def gradient_figures(trace: Trace, colors: theme.Palette) -> dict[str, go.Figure]:
    """A figure for each gradient that a kernel records as it sums it: one line for each of some tiles."""
    figures = {}
    for index, kernel in enumerate(algorithm_of(trace).kernels):
        for each in kernel.sums:
            lines = list(_gradient_lines(trace, index, each))
            if lines:
                name, _ = GRADIENTS[each.result]
                title = f"distance of {name} from its final value"
                figures[name] = _figure(title, "step of the tile", lines, "log", colors)
    return {name: figures[name] for name, _ in GRADIENTS.values() if name in figures}


def _gradient_lines(trace: Trace, kernel: int, each: RecordedSum) -> Iterator[Line]:
    """Lines of evenly spread tiles of the first head; heads that share a key head sum the same key tiles."""
    if trace.gradient_distance is None or each.result not in GRADIENTS:
        return
    distance, tile = trace.gradient_distance[:, GRADIENTS[each.result][1]], getattr(trace, each.tile)
    by_keys = each.tile == "kv_tile"
    head = trace.batch_head // trace.problem.group_size if by_keys else trace.batch_head
    adds = (trace.kernel == kernel) & (trace.kv_tile >= 0) & (trace.q_tile >= 0)
    known = np.flatnonzero(adds & ~np.isnan(distance))
    known = known[head[known] == head[known].min(initial=trace.problem.heads)]
    tiles = np.unique(tile[known])
    for shown in tiles[charts.evenly_spaced(len(tiles), SPREAD)]:
        steps = known[tile[known] == shown]
        name = f"{'key' if by_keys else 'query'} tile {shown}"
        yield Line(name, np.arange(1, len(steps) + 1), distance[steps])


def _figure(title: str, unit: str, lines: list[Line], scale: str, colors: theme.Palette) -> go.Figure:
    """On a log axis an exact 0 has a place of its own, a decade below the smallest positive value."""
    values = np.concatenate([line.y for line in lines] or [np.empty(0)])
    positive = values[(values > 0) & (values < np.inf)]
    zero, y = 0.0, {}
    if scale == "log" and len(positive):
        first, last = (round(math.log10(each)) for each in (positive.min(), positive.max()))
        zero = 10.0 ** (math.floor(math.log10(positive.min())) - 1)
        powers = range(first, last + 1, 1 + (last - first) // MOST_DECADES)
        ticks = {zero: "0"} if (values == 0).any() else {}
        ticks |= {10.0**power: f"10<sup>{power}</sup>".replace("-", "−") for power in powers}
        y = charts.log_ticks([*ticks], [*ticks.values()])
        if last == first and len(ticks) == 1:
            y = {"type": "log", "exponentformat": "power"}
    scatters = [_scatter(line, index, unit, zero, colors) for index, line in enumerate(lines)]
    x, legend = {"title": {"text": unit, "standoff": 4}}, {"y": -0.24, "yanchor": "top"}
    return charts.chart(scatters, colors, 300, title, x, y, legend=legend, margin_t=34)


def _scatter(drawn: Line, index: int, unit: str, zero: float, colors: theme.Palette) -> go.Scatter:
    hues = (colors.query, colors.key, colors.value, colors.output, colors.state)
    broken, few = not np.isfinite(drawn.y).all(), len(drawn.x) <= MOST_MARKERS
    return charts.line(
        drawn.x,
        np.where(drawn.y == 0, zero, drawn.y),
        hues[index % len(hues)],
        dash=DASHES[index % len(DASHES)],
        name=drawn.name,
        mode="lines+markers" if broken or few else "lines",
        marker={"size": 7 if few else 4, "symbol": index},
        text=[format_number(value, 4) for value in drawn.y],
        hovertemplate=f"{drawn.name}, {unit} %{{x}}: %{{text}}<extra></extra>",
    )
