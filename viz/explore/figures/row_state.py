"""The state of several rows over the key tiles, or of several gradient tiles over the steps that sum them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from kernels.algorithms import algorithm_of
from kernels.problem import AttentionProblem
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm, Kernel, RecordedSum
from viz.shared import theme
from viz.shared.figures import charts
from viz.shared.formats import format_number

ROW_STATE = {"row max m": ("row_max", "m", "linear"), "row sum l": ("row_sum", "l", "log")}
"""By title: the field of Trace, the name that the phases have for it, and the scale of its axis."""
DISTANCE = "distance from the final output"
GRADIENTS = {"d_query": ("dQ", 0), "d_key": ("dK", 1), "d_value": ("dV", 2)}
"""By the result that a sum ends as: its name, and its column of Trace.gradient_distance."""
SPREAD = 5
"""Rows or tiles that have a line."""
MOST_DECADES = 8
"""Powers of ten that have a tick on a log axis."""
MOST_MARKERS = 64
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")


class Line(NamedTuple):
    """A line of a figure: its name, and x and y of its points. It is broken where y is NaN."""

    name: str
    x: np.ndarray
    y: np.ndarray


def spread_rows(trace: Trace, count: int = SPREAD) -> list[tuple[int, int]]:
    """(batch_head, row) of `count` rows spread evenly over the rows of the first head that were recorded."""
    recorded = trace.row_max if trace.row_max is not None else trace.row_share
    if recorded is None:
        return []
    head = trace.batch_head[0]
    known = (trace.batch_head == head) & (trace.q_tile >= 0)
    step, offset = np.nonzero(~np.isnan(recorded) & known[:, None])
    rows = np.unique(trace.q_tile[step] * trace.problem.block_m + offset)
    return [(int(head), int(row)) for row in rows[charts.evenly_spaced(len(rows), count)]]


def state_figures(trace: Trace, colors: theme.Palette) -> dict[str, go.Figure]:
    """Figures by title: of rows for a forward pass, of gradient tiles for a backward pass."""
    if trace.gradient_distance is not None:
        return gradient_figures(trace, colors)
    return row_state_figures(trace, spread_rows(trace), colors)


def row_state_figures(
    trace: Trace, rows: list[tuple[int, int]], colors: theme.Palette
) -> dict[str, go.Figure]:
    """A figure for each quantity that changes from tile to tile: one line per row, in the order of its steps.

    A line is of one kernel, the one that changes the quantity. If the kernel splits the keys, each part of a
    line is one program's, since each program starts anew.
    """
    figures = {}
    for title, field, kernel, scale in _running_values(trace):
        lines = [_row_line(trace, kernel, field, *row) for row in rows]
        figures[title] = _figure(title, "key tile", lines, scale, colors)
    return figures


def _running_values(trace: Trace) -> Iterator[tuple[str, str, int, str]]:
    """Title, field of Trace, index of the kernel that changes it step by step, and scale of the axis."""
    kernels = algorithm_of(trace).kernels
    for title, (field, name, scale) in ROW_STATE.items():
        for index, kernel in enumerate(kernels):
            if field in kernel.row_fields and _makes(kernel, name) and getattr(trace, field) is not None:
                yield title, field, index, scale
                break
    for index, kernel in enumerate(kernels):
        if trace.output_distance is not None and any(each.result == "output" for each in kernel.sums):
            yield DISTANCE, "output_distance", index, "log"
            break


def _makes(kernel: Kernel, name: str) -> bool:
    return any(name in phase.makes for phase in kernel.step)


def _row_line(trace: Trace, kernel: int, field: str, batch_head: int, row: int) -> Line:
    algorithm, values = algorithm_of(trace), getattr(trace, field)
    q_tile, offset = divmod(row, trace.problem.block_m)
    of_tile = (trace.kernel == kernel) & (trace.batch_head == batch_head) & (trace.q_tile == q_tile)
    steps = np.flatnonzero(of_tile & (trace.kv_tile >= 0) & ~np.isnan(values[:, offset]))
    x, y = trace.kv_tile[steps], values[steps, offset]
    if algorithm.kernels[kernel].splits_keys:
        breaks = np.flatnonzero(np.diff(trace.program[steps])) + 1
        x, y = np.insert(x, breaks, x[breaks]), np.insert(y, breaks, np.nan)
    return Line(_row_name(algorithm, trace.problem, batch_head, row), x, y)


def _row_name(algorithm: Algorithm, problem: AttentionProblem, batch_head: int, row: int) -> str:
    """Such as "row 3"; if rows of several heads are packed into a tile, "head 1, query 3"."""
    if not algorithm.packs_heads or problem.group_size == 1:
        return f"row {row}"
    member, query = divmod(row, problem.q_len)
    return f"head {batch_head * problem.group_size + member}, query {query}"


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
    _, column = GRADIENTS[each.result]
    distance, tile = trace.gradient_distance[:, column], getattr(trace, each.tile)
    by_keys = each.tile == "kv_tile"
    head = trace.batch_head // trace.problem.group_size if by_keys else trace.batch_head
    adds = (trace.kernel == kernel) & (trace.kv_tile >= 0) & (trace.q_tile >= 0)
    known = np.flatnonzero(adds & ~np.isnan(distance))
    known = known[head[known] == head[known].min(initial=trace.problem.heads)]
    tiles = np.unique(tile[known])
    word = "key tile" if by_keys else "query tile"
    for shown in tiles[charts.evenly_spaced(len(tiles), SPREAD)]:
        steps = known[tile[known] == shown]
        yield Line(f"{word} {shown}", np.arange(1, len(steps) + 1), distance[steps])


def _figure(title: str, unit: str, lines: list[Line], scale: str, colors: theme.Palette) -> go.Figure:
    values = [line.y for line in lines]
    zero = _place_of_zero(values) if scale == "log" else None
    scatters = [_scatter(line, index, unit, zero, colors) for index, line in enumerate(lines)]
    positive = _positive(values)
    is_log = scale == "log" and len(positive)
    y = {"type": "log", **_log_ticks(positive.min(), positive.max(), zero)} if is_log else {}
    x, legend = {"title": {"text": unit, "standoff": 4}}, {"y": -0.24, "yanchor": "top"}
    return charts.chart(scatters, colors, 300, title, x, y, legend=legend, margin_t=34)


def _scatter(line: Line, index: int, unit: str, zero: float | None, colors: theme.Palette) -> go.Scatter:
    hues = (colors.query, colors.key, colors.value, colors.output, colors.state)
    broken, few = not np.isfinite(line.y).all(), len(line.x) <= MOST_MARKERS
    return charts.line(
        line.x,
        line.y if zero is None else np.where(line.y == 0, zero, line.y),
        hues[index % len(hues)],
        dash=DASHES[index % len(DASHES)],
        name=line.name,
        mode="lines+markers" if broken or few else "lines",
        marker={"size": 7 if few else 4, "symbol": index},
        text=[format_number(value, 4) for value in line.y],
        hovertemplate=f"{line.name}, {unit} %{{x}}: %{{text}}<extra></extra>",
    )


def _positive(values: list[np.ndarray]) -> np.ndarray:
    """The values that have a place on a log axis; a kernel may give infinite ones, too."""
    return np.concatenate([each[(each > 0) & (each < np.inf)] for each in values] or [np.empty(0)])


def _place_of_zero(values: list[np.ndarray]) -> float | None:
    """Where a log axis shows an exact 0: a decade below the smallest positive value. None without a 0."""
    positive = _positive(values)
    if not len(positive) or not any((each == 0).any() for each in values):
        return None
    return 10.0 ** (math.floor(math.log10(positive.min())) - 1)


def _log_ticks(low: float, high: float, zero: float | None) -> dict:
    """Ticks at powers of ten, and one that says 0 if zeros are drawn; Plotly's own within two decades."""
    first, last = math.ceil(math.log10(low) - 1e-6), math.floor(math.log10(high) + 1e-6)
    if zero is None and last - first < 2:
        return {"exponentformat": "power"}
    powers = range(last, first - 1, -max(-(-(last - first + 1) // MOST_DECADES), 1))
    ticks = {10.0**power: f"10<sup>{power}</sup>".replace("-", "−") for power in powers}
    if last < first:
        ticks = {low: format_number(low, 2)}
    if zero is not None:
        ticks[zero] = "0"
    return {"tickvals": list(ticks), "ticktext": list(ticks.values())}
