"""Time and peak memory of several implementations on one problem."""

import textwrap
from typing import Any

import plotly.graph_objects as go

from kernels.measure.measurement import Measurement, PeerResult
from kernels.measure.peers import PEERS
from viz.shared import theme
from viz.shared.figures.charts import BEHIND, chart, lengths, note, rows
from viz.shared.formats import format_bytes, format_ms

TORCH_HAS_NONE = "No available kernel"
"""How torch begins its refusal if the backend that was asked for does not take the problem."""
LONGEST_REASON, BESIDE_A_RUN = 60, 48
"""Characters of a refusal beside a bar or in a table; fewer where a run leaves less room."""


def time_figure(measurement: Measurement, colors: theme.Palette, direction: str = "forward") -> go.Figure:
    """Bars of the median time of one direction, with the 10th to 90th percentile, or why there is none."""
    results = _results(measurement, direction)
    timings = [result.timing for result in results]
    medians = [t.median_ms if t else 0.0 for t in timings]
    ends = [t.high_ms if t else 0.0 for t in timings]
    spread = {
        "type": "data",
        "symmetric": False,
        "array": [t.high_ms - t.median_ms if t else 0.0 for t in timings],
        "arrayminus": [t.median_ms - t.low_ms if t else 0.0 for t in timings],
        "color": colors.text,
        "thickness": 1.5,
    }
    title = f"time of one {direction} call, median, 10th to 90th percentile"
    words = [format_ms(median) for median in medians]
    return _bars(title, results, medians, words, colors, error_x=spread, ends=ends)


def memory_figure(measurement: Measurement, colors: theme.Palette, direction: str = "forward") -> go.Figure:
    """Horizontal bars of the peak of allocated bytes during a call of one direction, beyond the inputs."""
    results = _results(measurement, direction)
    peaks = [float(result.peak_extra_bytes or 0) for result in results]
    words = [format_bytes(peak) for peak in peaks]
    return _bars("peak memory beyond the inputs", results, peaks, words, colors)


def _results(measurement: Measurement, direction: str) -> list[PeerResult]:
    """Those of one direction, the first on top: Plotly draws bars from the bottom."""
    own = [result for result in measurement.results if result.direction == direction]
    return own[::-1]


def _bars(
    title: str,
    results: list[PeerResult],
    values: list[float],
    words: list[str],
    colors: theme.Palette,
    **choices: Any,
) -> go.Figure:
    beside = [
        value_words if result.refused is None else short_reason(result.refused, BESIDE_A_RUN)
        for result, value_words in zip(results, words, strict=True)
    ]
    peers, hover = [result.peer for result in results], [_hover(result) for result in results]
    labels = [PEERS[peer].label for peer in peers]
    choices |= {"hovertext": hover, "hoverinfo": "text"}
    return peer_bars(title, peers, labels, values, beside, colors, **choices)


def peer_bars(
    title: str,
    peers: list[str],
    labels: list[str],
    values: list[float],
    words: list[str],
    colors: theme.Palette,
    ends: list[float] | None = None,
    **choices: Any,
) -> go.Figure:
    """A bar per peer, the first at the bottom, with words behind its end or behind that of its error bar."""
    ends = ends or values
    bars = rows(labels, values, marker_color=[theme.peer_color(peer, colors) for peer in peers], **choices)
    x = lengths(max(ends, default=0) or 1, 1.4)
    figure = chart([bars], colors, 88 + 44 * len(values), title, x, {"showgrid": False}, bargap=0.3)
    for label, end, words_of_bar in zip(labels, ends, words, strict=True):
        note(figure, words_of_bar, end, y=label, **BEHIND)
    return figure


def short_reason(refused: str, longest: int = LONGEST_REASON) -> str:
    """A refusal in one line. A longer one ends after a word of it, with "…"."""
    if refused.startswith(TORCH_HAS_NONE):
        return "does not take this problem"
    return textwrap.shorten(refused, longest, placeholder=" …")


def _hover(result: PeerResult) -> str:
    timing = result.timing
    if timing is None:
        return result.refused or ""
    median, low, high = map(format_ms, (timing.median_ms, timing.low_ms, timing.high_ms))
    memory = format_bytes(result.peak_extra_bytes or 0)
    return f"median {median} ({low} to {high}, {timing.samples} samples)<br>{memory}"
