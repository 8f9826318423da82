"""Time and peak memory of several implementations on one problem."""

from __future__ import annotations

import textwrap

import plotly.graph_objects as go

from kernels.measure.measurement import Measurement, PeerResult
from kernels.measure.peers import PEERS
from viz.shared import theme
from viz.shared.formats import format_bytes, format_ms

TORCH_HAS_NONE = "No available kernel"
"""How torch begins its refusal if the backend that was asked for does not take the problem."""
LONGEST_REFUSAL = 48
"""Characters beside a bar."""


def time_figure(measurement: Measurement, colors: theme.Palette, direction: str = "forward") -> go.Figure:
    """Horizontal bars of the median time of one direction, with the 10th to 90th percentile.

    A refused peer says why.
    """
    results = _results(measurement, direction)
    medians = [result.timing.median_ms if result.timing else 0.0 for result in results]
    highs = [result.timing.high_ms if result.timing else 0.0 for result in results]
    lows = [result.timing.low_ms if result.timing else 0.0 for result in results]
    spread = {
        "type": "data",
        "symmetric": False,
        "array": [high - median for high, median in zip(highs, medians, strict=True)],
        "arrayminus": [median - low for low, median in zip(lows, medians, strict=True)],
        "color": colors.text,
        "thickness": 1.5,
    }
    words = [format_ms(median) for median in medians]
    title = f"time of one {direction} call, median, 10th to 90th percentile"
    return _bars(title, results, medians, highs, words, colors, spread)


def memory_figure(measurement: Measurement, colors: theme.Palette, direction: str = "forward") -> go.Figure:
    """Horizontal bars of the peak of allocated bytes during a call of one direction, beyond the inputs."""
    results = _results(measurement, direction)
    peaks = [float(result.peak_extra_bytes or 0) for result in results]
    words = [format_bytes(peak) for peak in peaks]
    return _bars("peak memory beyond the inputs", results, peaks, peaks, words, colors)


def _results(measurement: Measurement, direction: str) -> list[PeerResult]:
    """Those of one direction, the first on top: Plotly draws bars from the bottom."""
    own = [result for result in measurement.results if result.direction == direction]
    return own[::-1]


def _bars(
    title: str,
    results: list[PeerResult],
    values: list[float],
    ends: list[float],
    words: list[str],
    colors: theme.Palette,
    error_x: dict | None = None,
) -> go.Figure:
    """A bar per result, with its words or its refusal behind the end of its bar or error bar."""
    labels = [PEERS[result.peer].label for result in results]
    figure = go.Figure(
        go.Bar(
            x=values,
            y=labels,
            orientation="h",
            marker_color=[theme.peer_color(result.peer, colors) for result in results],
            hovertext=[_hover(result) for result in results],
            hoverinfo="text",
            error_x=error_x,
        )
    )
    theme.style_figure(figure, colors, height=84 + 44 * len(results))
    for label, result, end, value_words in zip(labels, results, ends, words, strict=True):
        figure.add_annotation(
            x=end,
            y=label,
            text=value_words if result.refused is None else _short(result.refused),
            showarrow=False,
            xanchor="left",
            xshift=8,
        )
    figure.update_yaxes(showgrid=False)
    figure.update_xaxes(range=[0, 1.35 * max([*ends, 1e-9])], showticklabels=False, showgrid=False)
    figure.update_layout(title={"text": title, "font_size": 15, "y": 0.97}, bargap=0.3, showlegend=False)
    return figure


def _short(refused: str) -> str:
    """A refusal in one line; the whole of it is in the hover text."""
    if refused.startswith(TORCH_HAS_NONE):
        return "does not take this problem"
    return textwrap.shorten(refused, LONGEST_REFUSAL, placeholder=" …")


def _hover(result: PeerResult) -> str:
    timing = result.timing
    if timing is None:
        return result.refused or ""
    median, low, high = map(format_ms, (timing.median_ms, timing.low_ms, timing.high_ms))
    memory = format_bytes(result.peak_extra_bytes or 0)
    return f"median {median} ({low} to {high}, {timing.samples} samples)<br>{memory}"
