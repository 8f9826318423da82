"""Measurements as figures: curves over length, head_dim or batch on log axes."""

import math
import textwrap
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from kernels.device.clocks import Timing
from kernels.measure.measurement import DIRECTIONS
from kernels.measure.peers import PEERS
from kernels.measure.series import CurvePoint, PeerCurve, speedups
from kernels.traffic.modelled import attention_flops
from viz.shared import theme
from viz.shared.figures import charts
from viz.shared.formats import (
    format_bytes,
    format_joules,
    format_length,
    format_ms,
    format_ratio,
    significant,
)

TORCH_HAS_NONE = "No available kernel"
"""How torch begins its refusal if the backend that was asked for does not take the problem."""
LONGEST_REASON = 60
"""Characters of a refusal in a table."""


def _spread(timings: Sequence[Timing | None]) -> dict[str, Any]:
    """Error bars from the 10th to the 90th percentile."""
    above = [t.high_ms - t.median_ms if t else 0.0 for t in timings]
    below = [t.median_ms - t.low_ms if t else 0.0 for t in timings]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below}


def short_reason(refused: str) -> str:
    """A refusal in one line. A longer one ends after a word of it, with "…"."""
    if refused.startswith(TORCH_HAS_NONE):
        return "does not take this problem"
    return textwrap.shorten(refused, LONGEST_REASON, placeholder=" …")


_FILE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
TITLES, LETTERS, SYMBOLS = (_FILE[name] for name in ("titles", "letters", "symbols"))
RANKS = {"naive": 1, "ours": 2}
"""Places in the legend; the other peers follow."""
LAST_RANK = 900
DASHES = {"recorded": "solid", "measured": "dash", "file": "dot"}


def peer_label(name: str) -> str:
    """The label of a peer, or its name if a file names one that is not known here."""
    return PEERS[name].label if name in PEERS else name


def curve_names(curves: Sequence[PeerCurve]) -> list[str]:
    """The label of each curve's peer, and its source if there are several."""
    many = len({curve.source for curve in curves}) > 1
    return [peer_label(curve.peer) + (f" · {curve.source}" if many else "") for curve in curves]


def sweep_figure(curves: list[PeerCurve], metric: str, axis: str, colors: theme.Palette) -> go.Figure:
    """A line per peer and source; wide spreads are hollow, and a line shows where memory runs out."""
    ours_last = sorted(curves, key=lambda curve: curve.peer == "ours")  # on top of lines that it covers
    lines = [
        _line(curve, values, metric, axis, colors).update(name=name + exponent_words(curve, metric, axis))
        for curve, name in zip(ours_last, curve_names(ours_last), strict=True)
        if (values := curve_values(curve, curves, metric))
    ]
    lengths = sorted({point.x for curve in curves for point in curve.points})
    title = {"text": f"{axis} ({LETTERS[axis]})", "standoff": 4}
    heights = [y for trace in lines for y in trace.y if y > 0]  # without one Plotly makes an axis
    figure = charts.chart(
        lines,
        colors,
        380 + 14 * len(lines),
        f"{TITLES[metric]}, against {axis}",
        charts.log_ticks(lengths, [format_length(length) for length in lengths], minor_ticks="", title=title),
        charts.log_ticks(*zip(*value_ticks(heights, metric), strict=True)) if heights else {},
        legend=charts.LEGEND_BELOW,
        margin_t=46,
        hovermode="closest",
    )
    for curve in curves:
        if curve.out_of_memory:
            _mark_out_of_memory(figure, curve, metric, colors)
    return figure


def curve_values(curve: PeerCurve, curves: list[PeerCurve], metric: str) -> list[tuple[int, float]]:
    """(x, value) of the points that are drawn."""
    if metric == "speedup":
        return [] if curve.peer == "naive" else speedups(curve, curves)
    return [(x, value) for x, value in curve.values(metric).items() if value]


def exponent_words(curve: PeerCurve, metric: str, axis: str) -> str:
    """The fitted exponent of time and memory per sequence, for the legend."""
    exponent = curve.exponent(metric) if metric in ("time", "memory") and axis == "length" else None
    return "" if exponent is None else f"  per sequence ∝ {LETTERS[axis]}<sup>{exponent:.2f}</sup>"


def _line(
    curve: PeerCurve, values: list[tuple[int, float]], metric: str, axis: str, colors: theme.Palette
) -> go.Scatter:
    color, symbol = theme.peer_color(curve.peer, colors), SYMBOLS.get(curve.peer, "star")
    shown = [curve.timings[x] for x, _ in values]
    hollow = [metric not in ("memory", "call", "energy") and timing.is_wide for timing in shown]
    symbols = [f"{symbol}-open" if is_hollow else symbol for is_hollow in hollow]
    return charts.line(
        [x for x, _ in values],
        [y for _, y in values],
        *(color, 3 if curve.peer == "ours" else 2, DASHES.get(curve.source, "dashdot")),
        mode="lines+markers",
        marker=charts.mark(color, 9, symbols, {"width": 2, "color": color}),
        error_y=_spread(shown) | {"visible": metric == "time", "thickness": 1.2, "width": 3},
        legendrank=RANKS.get(curve.peer, LAST_RANK),
        text=[format_metric(y, metric) for _, y in values],
        hovertemplate=f"{curve.source}, {axis} %{{x:,}}: %{{text}}<extra>{peer_label(curve.peer)}</extra>",
    )


def sustained_words(point: CurvePoint, direction: str) -> str:
    """Spread of the energy, energy per FLOP, power and clock of a call without a pause."""
    own = point.result.sustained
    if own is None:
        return ""
    spread = (own.high_joules - own.low_joules) / (2 * own.joules or 1)
    parts = (direction,) if direction in DIRECTIONS else DIRECTIONS
    per_flop = own.joules / sum(attention_flops(point.problem, part) for part in parts)
    return f"±{spread:.0%}, {1e12 * per_flop:.2f} pJ/FLOP, {own.power_w:.0f} W, {own.sm_mhz:,.0f} MHz"


WITH_UNIT: dict[str, Callable[[float], str]] = {
    "time": format_ms,
    "call": format_ms,
    "memory": format_bytes,
    "energy": format_joules,
    "speedup": format_ratio,
}


def format_metric(value: float, metric: str) -> str:
    """A value of the metric with its unit."""
    return WITH_UNIT[metric](value) if metric in WITH_UNIT else f"{significant(value)} TFLOP/s"


def value_ticks(values: list[float], metric: str) -> list[tuple[float, str]]:
    """(value, words) of the ticks of a log axis, for values above 0."""
    low, high = math.floor(math.log10(min(values)) + 1e-9), math.ceil(math.log10(max(values)) - 1e-9)
    steps = (1, 2, 5) if high - low <= 3 else (1,)
    ticks = [step * 10.0**power for power in range(low, high + 1) for step in steps]
    return [(tick, format_metric(tick, metric).removesuffix(" TFLOP/s")) for tick in ticks]


def _mark_out_of_memory(figure: go.Figure, curve: PeerCurve, metric: str, colors: theme.Palette) -> None:
    """A line at the first x that does not fit; in the memory chart also the needed bytes (modelled)."""
    color, first = theme.peer_color(curve.peer, colors), curve.out_of_memory[0]
    figure.add_vline(first.x, line={"color": color, "dash": "dot", "width": 2})
    charts.note(
        figure,
        f"{peer_label(curve.peer)} · {curve.source}<br>out of memory: {first.result.refused}",
        math.log10(first.x),
        **{"y": 1, "yref": "paper", "yanchor": "top", "xanchor": "right", "xshift": -6, "align": "right"},
        font={"color": color, "size": 13},
        bgcolor=colors.background,
        opacity=0.95,
    )
    needed = {point.x: point.needed_bytes for point in curve.out_of_memory if point.needed_bytes}
    if metric == "memory" and needed:
        crosses = charts.points(
            *(list(needed), list(needed.values()), color, 12, "x-open", {"width": 3}),
            name=f"{peer_label(curve.peer)}: needed (modelled)",
            text=[f"would need {format_bytes(size)} (modelled)" for size in needed.values()],
            hoverinfo="text",
        )
        figure.add_trace(crosses)
