"""Colours and fonts. No other file of the project has a colour in it, but for .streamlit/config.toml.

The smallest distance of two tensors in OKLab is above 0.07 for every colour vision.
"""

import tomllib
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

FONT = "Source Sans, Source Sans Pro, sans-serif"


PAPER_TO_INK = (
    "#f9f3f0 #ffd2c2 #ffafa0 #ff8d88 #ff6c78 #f64d6e #e03468 #c52262 #a61c5b #851e51 #642143 #432133 #221e20"
)
NIGHT_TO_CREAM = (
    "#2b242a #472843 #66295a #87276b #a92475 #ca2677 #e73473 #ff4e6b #ff6f65 #ff936b #ffb885 #ffd9b2 #fbf4e9"
)
"""Weights: lightness falls (or grows) evenly, so that the picture reads without its colours too."""


def _both(light: str, dark: str) -> Any:
    return field(default="", metadata={"both": (light, dark)})


@dataclass(frozen=True)
class Palette:
    """Colours of one appearance. Text on background has a contrast of 7:1 or more, muted text 4.5:1.

    Each tensor has a hue; m, l and alpha are of one family with what is worked on.
    """

    background: str = _both("#fbfaf8", "#121116")
    surface: str = _both("#f1eee9", "#1b1a21")
    text: str = _both("#1b1a1e", "#f3f0eb")
    muted: str = _both("#625e68", "#a8a3af")
    line: str = _both("#d3cec6", "#484552")
    query: str = _both("#1a4794", "#8ab8ff")
    key: str = _both("#9c5600", "#f2bd5a")
    value: str = _both("#053a24", "#86f0c4")
    output: str = _both("#7455cb", "#9479ee")
    state: str = _both("#c0245a", "#ee4d80")
    flash: str = _both("#1a4794", "#8ab8ff")
    standard: str = _both("#b4531b", "#f0a06a")
    rival: str = _both("#6d6a12", "#d9d46c")
    now: str = _both("#b3124f", "#ff8db8")
    good: str = _both("#00704f", "#2fc79c")
    bad: str = _both("#b3261e", "#ff8a80")
    plain: str = _both("#bdb7ae", "#5f5b6a")
    """A tile of which nothing more is known than that it was computed."""
    hidden: str = _both("#e2ddd5", "#2b2933")
    """What the mask hides."""
    cold: str = _both("#2b7f8c", "#5fbfcd")
    """A negative score ..."""
    warm: str = _both("#5f5b73", "#b9b4cc")
    """... and a positive one: before exp makes weights of them."""
    scale: tuple[str, ...] = _both(PAPER_TO_INK, NIGHT_TO_CREAM)
    """Of weights: from the colour of the ground to the one that stands out most."""


def _palette(appearance: int) -> Palette:
    colors = {each.name: each.metadata["both"][appearance] for each in fields(Palette)}
    return Palette(**colors | {"scale": tuple(colors["scale"].split())})


LIGHT, DARK = _palette(0), _palette(1)

ABOUT_NUMBERS = (
    "Each number says where it is from. **Counted**: by the code that ran, from the masks of its own loads "
    "and stores or the slices that it read and wrote; tiles are counted from the mask. **Modelled**: a "
    "formula. **Measured**: on this machine, now. **Recorded**: counted or measured on the GPU that is "
    "named, at the date that is named; a file of yours counts as recorded."
)

TENSOR_COLORS = {"Q": "query", "K": "key", "V": "value", "O": "output", "S": "muted", "P": "now"}
"""Which palette entry a tensor is drawn in, if it is not "state"; a gradient has that of its tensor."""

_FILE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
PEER_COLORS, LANE_LOOKS = _FILE["peers"], _FILE["lanes"]
"""Palette entries of implementations, and looks of a lane's activities, by names."""


def peer_color(name: str, colors: Palette) -> str:
    """Colour of an implementation; text colour for one that is not in PEER_COLORS, such as the user's own."""
    return getattr(colors, PEER_COLORS.get(name, "text"))


def tensor_entry(name: str) -> str:
    """Palette entry of a tensor; a gradient, a partial or a second result has that of its tensor."""
    return TENSOR_COLORS.get(name.removeprefix("partial ").removeprefix("2nd ").removeprefix("d"), "state")


def palettes_for_player() -> dict[str, dict]:
    """Both palettes as plain values, tensors by their names too: the player picks one by its background."""
    both = {"light": asdict(LIGHT), "dark": asdict(DARK)}
    return {
        name: each | {t: each[color] for t, color in TENSOR_COLORS.items()} for name, each in both.items()
    }


def looks_of_figure(colors: Palette) -> dict[str, Any]:
    """The layout of every figure: fonts, grid lines, margins and a transparent background."""
    axis = {
        "gridcolor": colors.line,
        "linecolor": colors.line,
        "zerolinecolor": colors.line,
        "title": {"font": {"size": 14}},
        "tickfont": {"size": 13},
        "automargin": True,
    }
    return {
        "font": {"family": FONT, "size": 14, "color": colors.text},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 8, "r": 8, "t": 36, "b": 8},
        "hoverlabel": {
            "font": {"size": 14, "family": FONT, "color": colors.text},
            "bgcolor": colors.surface,
            "bordercolor": colors.line,
        },
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "font": {"size": 13}},
        "colorway": [colors.query, colors.key, colors.value, colors.output, colors.state],
        "xaxis": axis,
        "yaxis": axis,
    }
