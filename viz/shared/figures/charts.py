"""What the charts of all pages are made of: a chart is its traces, its axes and a few named choices."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas  # noqa: F401  # whole before plotly, which looks into it while another session may still import it
import plotly.graph_objects as go

from viz.shared import theme

Values = Sequence | np.ndarray

DOWNWARDS: dict[str, Any] = {"autorange": "reversed", "showgrid": False}
"""An axis of rows, the first on top."""
POWERS: dict[str, Any] = {"type": "log", "exponentformat": "power", "dtick": 1}
"""A log axis with a tick at each power of ten."""
OUTSIDE: dict[str, Any] = {"textposition": "outside", "cliponaxis": False}
"""The words of a bar stand behind its end."""

LEGEND_BELOW: dict[str, Any] = {"yref": "container", "y": 0, "yanchor": "bottom", "font_size": 13}
"""A legend of many lines, at the foot of the figure."""


def chart(
    traces: Iterable,
    colors: theme.Palette,
    height: int,
    title: str = "",
    x: dict | None = None,
    y: dict | None = None,
    **layout: Any,
) -> go.Figure:
    """The traces in the looks of the app. `x` and `y` are settings of the axes, `layout` of the whole."""
    looks = theme.looks_of_figure(colors)
    if title:
        looks["title"] = {"text": title, "font": {"size": 15}, "y": 0.98}
    figure = go.Figure(list(traces), looks)
    return figure.update_layout(height=height, xaxis=x or {}, yaxis=y or {}, **layout)  # each update is slow


def lengths(longest: float, room: float) -> dict:
    """An axis of bars that say their numbers, with `room` for the words behind the longest."""
    return {"showticklabels": False, "showgrid": False, "range": [0, room * longest]}


def log_ticks(values: Values, words: Sequence[str], **more: Any) -> dict:
    """A log axis with these ticks alone."""
    return {"type": "log", "tickvals": list(values), "ticktext": list(words), **more}


def rows(labels: Sequence, values: Values, **choices: Any) -> go.Bar:
    return go.Bar(y=labels, x=values, orientation="h", **choices)


def line(
    x: Values, y: Values, color: str, width: float = 2, dash: str = "solid", **choices: Any
) -> go.Scatter:
    """A line, without marks unless `mode` says so."""
    look = {"color": color, "width": width, "dash": dash}
    return go.Scatter(x=x, y=y, **{"mode": "lines", "line": look, **choices})


def points(
    x: Sequence,
    y: Sequence,
    color: Any,
    size: int,
    symbol: Any = "circle",
    edge: dict | None = None,
    **choices: Any,
) -> go.Scatter:
    """Marks without a line between them."""
    return go.Scatter(x=x, y=y, mode="markers", marker=mark(color, size, symbol, edge), **choices)


def mark(color: Any, size: int, symbol: Any = "circle", edge: dict | None = None) -> dict:
    """How a point looks; `edge` has the width and the colour of its outline."""
    return {"color": color, "size": size, "symbol": symbol, "line": edge or {}}


def note(figure: go.Figure, text: str, x: Any, **choices: Any) -> None:
    """Words in a chart, without an arrow."""
    figure.add_annotation(text=text, x=x, showarrow=False, **choices)


def hatched(color: str | list[str], pattern: str | list[str], colors: theme.Palette) -> dict:
    """The marker of a bar: a colour, and a pattern of Plotly over it ("" for none).

    On all pages "/" means modelled. "x" and "." tell bars apart without their colours, as their legend says.
    """
    return {
        "color": color,
        "pattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": colors.background, "size": 6},
    }
