"""The chart of the last chapter: programs on SMs."""

import numpy as np
import plotly.graph_objects as go

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
