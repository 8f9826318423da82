"""Colours, fonts and number formats. The only place of the project with a colour in it, but for .streamlit/config.toml.

Categories are Okabe and Ito's colours, which readers with any colour vision tell apart; the scale is Cividis.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import plotly.graph_objects as go

FONT = "Source Sans, Source Sans Pro, sans-serif"
CIVIDIS = (
    "#00224e",
    "#123570",
    "#3b496c",
    "#575d6d",
    "#707173",
    "#8a8678",
    "#a59c74",
    "#c3b369",
    "#e1cc55",
    "#fee838",
)


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
    now: str
    good: str
    bad: str
    plain: str
    """A tile of which nothing more is known than that it was computed."""
    scale: tuple[str, ...] = CIVIDIS


LIGHT = Palette(
    background="#ffffff", surface="#f3f5f7", text="#16202a", muted="#4c5966", line="#c3ccd5",
    query="#0072b2", key="#d55e00", value="#00805e", output="#a6528a", state="#5b5fc7",
    flash="#0072b2", standard="#d55e00", now="#d40060", good="#00704f", bad="#b3261e", plain="#b4bcc4",
)  # fmt: skip

DARK = Palette(
    background="#0f151b", surface="#1a232c", text="#edf2f7", muted="#a9b7c4", line="#41505e",
    query="#56b4e9", key="#f0883e", value="#2fc79c", output="#e39cc5", state="#a5a8ff",
    flash="#56b4e9", standard="#f0883e", now="#ff5fa2", good="#2fc79c", bad="#ff8a80", plain="#5d6975",
)  # fmt: skip

ABOUT_NUMBERS = (
    "Each number says where it is from. **Counted**: by the kernel, from the masks of its own loads and stores. **Modelled**: a formula. "
    "**Measured**: on this machine, now. **Recorded**: measured on the GPU and at the date named."
)

TENSOR_COLORS = {
    "Q": "query",
    "K": "key",
    "V": "value",
    "O": "output",
    "lse": "state",
    "S": "muted",
    "P": "muted",
}
"""Which palette entry a tensor is drawn in; a gradient has the colour of its tensor."""


PEER_COLORS = {
    "naive": "standard", "ours": "flash", "flash2": "flash", "sdpa": "value", "sdpa_flash": "value", "sdpa_efficient": "output",
    "sdpa_cudnn": "state", "sdpa_math": "muted", "flex": "now",
}  # fmt: skip
"""Which palette entry an implementation is drawn in, on every chart."""


def peer_color(name: str, colors: Palette) -> str:
    """Colour of an implementation; text colour for one that is not in PEER_COLORS, such as the user's own."""
    return getattr(colors, PEER_COLORS.get(name, "text"))


def palette(dark: bool) -> Palette:
    """The palette of one appearance."""
    return DARK if dark else LIGHT


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


def format_bytes(count: float) -> str:
    """Decimal units, three significant digits: 1.18 MB."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 0.9995 * size:
            return f"{significant(count / size)} {unit}"
    return f"{count:.0f} B"


def format_length(count: int) -> str:
    """A sequence length on an axis: 512, 1k, 16k; whole as it is where it is no multiple of 1024."""
    return f"{count // 1024}k" if count and count % 1024 == 0 else f"{count}"


def format_kib(count: float) -> str:
    """Sizes of on-chip memory are powers of two: 56 KiB."""
    return f"{significant(count / 1024)} KiB"


def format_ms(milliseconds: float) -> str:
    """Seconds, milliseconds or microseconds, three significant digits."""
    if milliseconds >= 1000:
        return f"{significant(milliseconds / 1000)} s"
    if milliseconds >= 1:
        return f"{significant(milliseconds)} ms"
    return f"{significant(milliseconds * 1000)} µs"


def format_error(error: float) -> str:
    """A small number in powers of ten: 6.0e-04."""
    return "0" if error == 0 else f"{error:.1e}"


def format_flops(count: float) -> str:
    """Floating-point operations, decimal units: 268 MFLOP. For a rate write "/s" after it."""
    for unit, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= 0.9995 * size:
            return f"{significant(count / size)} {unit}FLOP"
    return f"{significant(count)} FLOP"


def format_ratio(ratio: float) -> str:
    """How many times: 2.9×, 18×."""
    return f"{ratio:.0f}×" if ratio >= 10 else f"{ratio:.1f}×"


def format_entry(value: float, whole: bool = False) -> str:
    """An entry of a small matrix: two decimals, one from 10 on, a power of ten from 1000 on and below 0.005; none where the matrix is `whole`."""
    size = abs(value)
    if not math.isfinite(value):
        return format_number(value)
    if whole and size < 99_999.5:
        text = f"{value:,.0f}"
    elif value == 0 or 0.005 <= size < 999.5:
        text = f"{value:.2f}" if size < 9.995 else f"{value:.1f}"
    else:
        text = f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return text.replace("-", "−")


def significant(number: float, digits: int = 3) -> str:
    """`digits` significant digits without an exponent, trailing zeros kept off."""
    if number == 0:
        return "0"
    text = f"{number:.{digits}g}"
    return f"{float(text):,.0f}" if "e" in text or float(text) >= 10 ** (digits - 1) else text


def format_number(number: float, digits: int = 3) -> str:
    """Any float: 0.135, −2, 4.54e−05, ∞, NaN."""
    number = float(number)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "−∞"
    if number == 0 or 1e-3 <= abs(number) < 1e6:
        text = significant(number, digits)
    else:
        text = f"{number:.{digits - 1}e}"
    return text.replace("-", "−")


def count_tex(count: int) -> str:
    """A whole number for formulas, every digit: 65{,}536."""
    return f"{count:,}".replace(",", "{,}")


def format_tex(number: float, digits: int = 3) -> str:
    """`format_number` for formulas: 4.54 times ten to the -5 as TeX sets it, infinity as its sign."""
    text = format_number(number, digits).replace("−", "-")
    if not any(figure.isdigit() for figure in text):
        return text.replace("∞", r"\infty").replace("NaN", r"\text{NaN}")
    mantissa, power, exponent = text.replace(",", "{,}").partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if power else mantissa
