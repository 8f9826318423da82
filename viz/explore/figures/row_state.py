"""The state of several rows over the key tiles, or of several gradient tiles over the steps that sum them."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from kernels.algorithms import algorithm_of
from kernels.problem import AttentionProblem
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm, RecordedSum
from viz.shared import theme
from viz.shared.figures import charts
from viz.shared.formats import format_number

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


def _scatter(line: Line, index: int, unit: str, zero: float, colors: theme.Palette) -> go.Scatter:
    hues = (colors.query, colors.key, colors.value, colors.output, colors.state)
    broken, few = not np.isfinite(line.y).all(), len(line.x) <= MOST_MARKERS
    return charts.line(
        line.x,
        np.where(line.y == 0, zero, line.y),
        hues[index % len(hues)],
        dash=DASHES[index % len(DASHES)],
        name=line.name,
        mode="lines+markers" if broken or few else "lines",
        marker={"size": 7 if few else 4, "symbol": index},
        text=[format_number(value, 4) for value in line.y],
        hovertemplate=f"{line.name}, {unit} %{{x}}: %{{text}}<extra></extra>",
    )
