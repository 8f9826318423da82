"""Colours and fonts. No other file of the project has a colour in it, but for .streamlit/config.toml.

Categories are Okabe and Ito's colours, which readers with any colour vision tell apart; the scale is Cividis.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import plotly.graph_objects as go
from plotly.colors import sequential

FONT = "Source Sans, Source Sans Pro, sans-serif"


@dataclass(frozen=True)
class Palette:
    """Colours of one appearance. Text on background has a contrast of 7:1 or more, muted text 4.5:1."""

    background: str
    surface: str
    text: str
    muted: str
    line: str
    query: str
    key: str
    value: str
    output: str
    state: str
    flash: str
    standard: str
    rival: str
    now: str
    good: str
    bad: str
    plain: str
    """A tile of which nothing more is known than that it was computed."""
    scale: tuple[str, ...]
    """Cividis, without the end that cannot be told from the background."""


CIVIDIS: Any = tuple(sequential.Cividis)
LIGHT_AND_DARK: dict[str, Any] = {
    "background": ("#ffffff", "#0f151b"),
    "surface": ("#f3f5f7", "#1a232c"),
    "text": ("#16202a", "#edf2f7"),
    "muted": ("#4c5966", "#a9b7c4"),
    "line": ("#c3ccd5", "#41505e"),
    "query": ("#0072b2", "#56b4e9"),
    "key": ("#d55e00", "#f0883e"),
    "value": ("#00805e", "#2fc79c"),
    "output": ("#a6528a", "#e39cc5"),
    "state": ("#5b5fc7", "#a5a8ff"),
    "flash": ("#0072b2", "#56b4e9"),
    "standard": ("#d55e00", "#f0883e"),
    "rival": ("#8a6100", "#d9c46a"),
    "now": ("#d40060", "#ff5fa2"),
    "good": ("#00704f", "#2fc79c"),
    "bad": ("#b3261e", "#ff8a80"),
    "plain": ("#b4bcc4", "#5d6975"),
}
LIGHT = Palette(**{name: each[0] for name, each in LIGHT_AND_DARK.items()}, scale=CIVIDIS[:-1])
DARK = Palette(**{name: each[1] for name, each in LIGHT_AND_DARK.items()}, scale=CIVIDIS[2:])

ABOUT_NUMBERS = (
    "Each number says where it is from. **Counted**: by the code that ran, from the masks of its own loads "
    "and stores or the slices that it read and wrote; tiles are counted from the mask. **Modelled**: a "
    "formula. **Measured**: on this machine, now. **Recorded**: counted or measured on the GPU that is "
    "named, at the date that is named; a file of yours counts as recorded."
)

TENSOR_COLORS = {"Q": "query", "K": "key", "V": "value", "O": "output", "S": "muted", "P": "muted"}
"""Which palette entry a tensor is drawn in, if it is not "state"; a gradient has that of its tensor."""

LANE_LOOKS = {
    "product": {"color": "query", "fill": "solid"},
    "softmax": {"color": "key", "fill": "hatched"},
    "wait": {"color": "muted", "fill": "open"},
    "other": {"color": "plain", "fill": "solid"},
}
"""How an activity of a lane is drawn, by its kind: palette entry, and a fill that tells it without colour."""

WAIT_COLORS = ("key", "query", "value", "output", "state", "plain")
"""Palette entries of the waits of an SM, in the order of their names."""

PEER_COLORS = {
    "naive": "standard",
    "ours": "flash",
    "flash2": "flash",
    "flash3": "flash",
    "sdpa": "value",
    "sdpa_flash": "value",
    "sdpa_efficient": "output",
    "sdpa_cudnn": "state",
    "sdpa_math": "muted",
    "fa4": "rival",
    "flex": "now",
}
"""Which palette entry an implementation is drawn in, on every chart."""


def peer_color(name: str, colors: Palette) -> str:
    """Colour of an implementation; text colour for one that is not in PEER_COLORS, such as the user's own."""
    return getattr(colors, PEER_COLORS.get(name, "text"))


def tensor_entry(name: str) -> str:
    """Palette entry of a tensor; a gradient or a partial result has that of its tensor."""
    return TENSOR_COLORS.get(name.removeprefix("partial ").removeprefix("d"), "state")


def tensor_color(name: str, colors: Palette) -> str:
    """Colour of a tensor or of its gradient."""
    return getattr(colors, tensor_entry(name))


def palettes_for_player() -> dict[str, dict]:
    """Both palettes as plain values: the player picks one by the page's background."""
    return {"light": asdict(LIGHT), "dark": asdict(DARK)}


def style_figure(figure: go.Figure, colors: Palette, height: int = 320) -> go.Figure:
    """Fonts, grid lines, margins and a transparent background; changes the figure and returns it."""
    axis = {
        "gridcolor": colors.line,
        "linecolor": colors.line,
        "zerolinecolor": colors.line,
        "title_font_size": 14,
        "tickfont_size": 13,
    }
    figure.update_layout(
        height=height,
        font={"family": FONT, "size": 14, "color": colors.text},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 8, "r": 8, "t": 36, "b": 8},
        hoverlabel={
            "font_size": 14,
            "font_family": FONT,
            "bgcolor": colors.surface,
            "font_color": colors.text,
            "bordercolor": colors.line,
        },
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "font_size": 13},
        colorway=[colors.query, colors.key, colors.value, colors.output, colors.state],
    )
    figure.update_xaxes(**axis, automargin=True)
    figure.update_yaxes(**axis, automargin=True)
    return figure
