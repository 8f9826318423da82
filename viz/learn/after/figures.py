"""Charts of the last chapter: programs on SMs, clocks of units."""

import numpy as np
import plotly.graph_objects as go

from viz.learn.after.maths import Clocks
from viz.shared import theme
from viz.shared.figures import charts
from viz.shared.formats import format_count

SMS_PER_LINE = 33


def sm_figure(programs_of_sm: np.ndarray, programs: int, colors: theme.Palette) -> go.Figure:
    """One square for each SM, by the programs that it runs in the first wave."""
    sms = len(programs_of_sm)
    lines = -(-sms // SMS_PER_LINE)
    padded = np.pad(programs_of_sm.astype(float), (0, lines * SMS_PER_LINE - sms), constant_values=np.nan)
    squares = padded.reshape(lines, SMS_PER_LINE)[::-1]
    heat = go.Heatmap(
        z=squares,
        zmin=0,
        zmax=2,
        colorscale=[[0, colors.line], [0.5, colors.value], [1, colors.flash]],
        showscale=False,
        xgap=2,
        ygap=2,
        text=[[f"{count:.0f}" if count > 0 else "" for count in line] for line in squares],
        texttemplate="%{text}",
        textfont={"size": 11, "color": colors.background},
        hovertemplate="%{z} programs<extra></extra>",
    )
    busy, hidden = int((programs_of_sm > 0).sum()), {"visible": False}
    title = f"<b>{busy} of {sms} SMs busy</b>, {format_count(programs, 'program')}"
    margin = {"l": 0, "r": 0, "t": 30, "b": 2}
    return charts.chart([heat], colors, 44 + 22 * lines, title, hidden, hidden, title_x=0, margin=margin)


UNIT_LOOKS = {"tensor cores": ("query", ""), "exponentials": ("key", "x")}


def clocks_figure(clocks: Clocks, colors: theme.Palette, with_overlap: bool = True) -> go.Figure:
    """A bar for each GPU: its units in turn; `with_overlap` one more, as long as the slowest unit."""
    shown = {}
    for gpu, each in clocks.items():
        shown[f"{gpu}, in turn"] = each
        if with_overlap:
            slowest = max(each, key=each.__getitem__)
            shown[f"{gpu}, overlapped"] = {slowest: each[slowest]}
    bars = [
        charts.rows(
            list(shown),
            [each.get(unit) for each in shown.values()],
            name=unit,
            marker=charts.hatched(getattr(colors, color), pattern, colors),
            text=[f"{each[unit]:,.0f}" if len(each) == 1 and unit in each else "" for each in shown.values()],
            textposition="inside",
            textfont_color=colors.background,
            hovertemplate=f"{unit}: %{{x:,.0f}} clocks<extra></extra>",
        )
        for unit, (color, pattern) in UNIT_LOOKS.items()
    ]
    x = {"title": "clocks of one SM for one tile"}
    return charts.chart(
        bars, colors, 76 + 32 * len(shown), "", x, charts.DOWNWARDS, barmode="stack", bargap=0.18
    )
