"""Time and peak memory of several implementations on one problem."""

from __future__ import annotations

import plotly.graph_objects as go

from kernels.measure.measurement import Measurement, PeerResult
from kernels.measure.peers import PEERS
from viz.shared import theme


def time_figure(measurement: Measurement, colors: theme.Palette, direction: str = "forward") -> go.Figure:
    """Horizontal bars of the median time of one direction, with the 10th to 90th percentile. A refused peer says why."""
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
    words = [theme.format_ms(value) for value in medians]
    return _bars(
        f"time of one {direction} call, median, 10th to 90th percentile",
        results,
        medians,
        highs,
        words,
        colors,
        error_x=spread,
    )


def memory_figure(measurement: Measurement, colors: theme.Palette, direction: str = "forward") -> go.Figure:
    """Horizontal bars of the peak of allocated bytes during a call of one direction, beyond the inputs."""
    results = _results(measurement, direction)
    peaks = [result.peak_extra_bytes or 0 for result in results]
    return _bars(
        "peak memory beyond the inputs",
        results,
        peaks,
        peaks,
        [theme.format_bytes(peak) for peak in peaks],
        colors,
    )


def _results(measurement: Measurement, direction: str) -> list[PeerResult]:
    """Those of one direction, the first on top."""
    own = [result for result in measurement.results if result.direction == direction]
    return own[::-1]


def _bars(
    title: str,
    results: list[PeerResult],
    values: list,
    ends: list,
    words: list[str],
    colors: theme.Palette,
    **options: object,
) -> go.Figure:
    labels = [PEERS[result.peer].label for result in results]
    figure = go.Figure(
        go.Bar(
            x=values,
            y=labels,
            orientation="h",
            marker_color=[_color(result, colors) for result in results],
            hovertext=[_words(result) for result in results],
            hoverinfo="text",
            **options,
        )
    )
    theme.style_figure(figure, colors, height=84 + 44 * len(results))
    for label, result, end, said in zip(labels, results, ends, words, strict=True):
        figure.add_annotation(
            x=end,
            y=label,
            text=said if result.refused is None else result.refused,
            showarrow=False,
            xanchor="left",
            xshift=8,
        )
    figure.update_yaxes(showgrid=False)
    figure.update_xaxes(range=[0, 1.35 * max(*ends, 1e-9)], showticklabels=False, showgrid=False)
    figure.update_layout(title={"text": title, "font_size": 15, "y": 0.97}, bargap=0.3, showlegend=False)
    return figure


def _color(result: PeerResult, colors: theme.Palette) -> str:
    return {"naive": colors.standard, "flash2": colors.flash, "ours": colors.flash}.get(
        result.peer, colors.muted
    )


def _words(result: PeerResult) -> str:
    if result.timing is None:
        return result.refused or ""
    timing = result.timing
    return (
        f"median {theme.format_ms(timing.median_ms)} ({theme.format_ms(timing.low_ms)} to {theme.format_ms(timing.high_ms)}, "
        f"{timing.samples} calls)<br>{theme.format_bytes(result.peak_extra_bytes)}"
    )
