"""Charts of the last chapter: SMs, parts and their weights, clocks, 8-bit errors, late rescales, 2^x."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from viz.learn.after.maths import ROUNDING, Clocks, LateRescale, Occupancy, PrecisionResult, SplitRow
from viz.shared import theme
from viz.shared.figures import charts
from viz.shared.formats import format_count, format_error

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


def split_steps_figure(
    curve: Sequence[Occupancy], chosen: Occupancy, rule: Occupancy, colors: theme.Palette
) -> go.Figure:
    """Tile steps until the last program ends, over the number of parts."""
    x, y = [plan.splits for plan in curve], [plan.tile_steps for plan in curve]
    of_plan = [[plan.programs, plan.waves, plan.tiles_per_split] for plan in curve]
    hover = "%{x} parts of %{customdata[2]} tiles: %{customdata[0]} programs, waves: %{customdata[1]}, "
    dots: dict[str, Any] = {"mode": "lines+markers", "marker_size": 7, "name": "each number of parts"}
    traces = [
        charts.line(x, y, colors.muted, customdata=of_plan, hovertemplate=f"{hover}%{{y}} tile steps", **dots)
    ]
    for plan, name, color, symbol, size in (
        (rule, "the kernel's rule", colors.flash, "diamond", 15),
        (chosen, "your choice", colors.now, "circle-open", 18),
    ):
        edge = {"width": 3, "color": color}
        traces.append(charts.points([plan.splits], [plan.tile_steps], color, size, symbol, edge, name=name))
    ticks = [2**exponent for exponent in range(max(*x, *y).bit_length())]
    axes = ({"type": "log", "tickvals": ticks[:: 1 if largest <= 1024 else 2]} for largest in (x[-1], max(y)))
    title, legend = "tile steps until the last program ends, by parts", {"y": -0.12, "yanchor": "top"}
    return charts.chart(traces, colors, 300, title, *axes, legend=legend)


def parts_figure(row: SplitRow, colors: theme.Palette) -> go.Figure:
    """The weight of each part in the merged row; hovering gives its m, l and lse."""
    keys = [f"{part.start}–{part.stop - 1}" for part in row.parts]
    bars = go.Bar(
        x=list(range(len(keys))),
        y=row.weights,
        marker_color=colors.state,
        customdata=np.stack([row.row_max, row.row_sum, row.lse_of_part], axis=1),
        hovertext=keys,
        hovertemplate="keys %{hovertext}<br>m %{customdata[0]:.4f}, l %{customdata[1]:.4f}, "
        "lse %{customdata[2]:.4f}<br>weight %{y:.4f}<extra></extra>",
    )
    title = "weight of each part, exp(lse of the part − lse)"
    x = {"title": "part", "dtick": 1 if len(keys) <= 16 else None}
    return charts.chart([bars], colors, 240, title, x, {"rangemode": "tozero", "nticks": 5}, bargap=0.15)


UNIT_LOOKS = {"tensor cores": ("query", ""), "exponentials": ("key", "x"), "polynomial": ("value", ".")}


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
        if any(each[unit] for each in clocks.values())
    ]
    x = {"title": "clocks of one SM for one tile"}
    return charts.chart(
        bars, colors, 76 + 32 * len(shown), "", x, charts.DOWNWARDS, barmode="stack", bargap=0.18
    )


def precision_figure(results: Sequence[PrecisionResult], colors: theme.Palette) -> go.Figure:
    """Root mean square error of each way to round."""
    patterns = ["." if "block" in result.label else "" for result in results]
    looks = {"rotated": colors.flash, "e4m3": colors.standard, "float16": colors.muted}
    shades = [next(looks[word] for word in looks if word in result.label) for result in results]
    errors = [result.rmse for result in results]
    bars = charts.rows(
        [result.label.replace(", ", ",<br>", 1) for result in results],
        errors,
        marker=charts.hatched(shades, patterns, colors),
        text=[format_error(error) for error in errors],
        **charts.OUTSIDE,
        customdata=[result.largest for result in results],
        hovertemplate="%{y}: RMSE %{x:.2e}, largest %{customdata:.2e}<extra></extra>",
    )
    title = "root mean square error of O against float64"
    return charts.chart(
        [bars], colors, 330, title, charts.lengths(max(errors), 1.5), charts.DOWNWARDS, bargap=0.25
    )


def rotation_figure(before: np.ndarray, after: np.ndarray, colors: theme.Palette) -> go.Figure:
    """Magnitudes of one row of K, as it is and rotated."""
    hover = "feature %{x}: %{y:.2f}"
    bars = [
        go.Bar(name="as it is", y=np.abs(before), marker_color=colors.standard, hovertemplate=hover),
        go.Bar(name="rotated", y=np.abs(after), marker_color=colors.flash, hovertemplate=hover),
    ]
    title = "magnitudes of the row of K with the largest entry"
    return charts.chart(bars, colors, 260, title, {"title": "feature"}, margin_t=66, bargap=0.1)


def late_rescale_figure(results: Sequence[LateRescale], chosen: int, colors: theme.Palette) -> go.Figure:
    """Share of row-tile pairs that rescale, over the threshold."""
    shares = [result.rescales / max(result.row_steps, 1) for result in results]
    bars = go.Bar(
        x=[f"2<sup>{result.threshold:g}</sup>" for result in results],
        y=shares,
        marker=charts.framed(colors.state, [result.threshold == chosen for result in results], colors),
        text=[f"{result.rescales:,}" for result in results],
        **charts.OUTSIDE,
        customdata=[result.row_steps for result in results],
        hovertemplate="%{text} of %{customdata:,} row-tile pairs rescale<extra></extra>",
    )
    x = {"title": "the max may grow by this factor without a rescale", "type": "category"}
    y = {"tickformat": ".0%", "range": [0, 1.15 * max(*shares, 0.01)], "nticks": 5}
    return charts.chart([bars], colors, 280, "rescales, as a share of all row-tile pairs", x, y, bargap=0.25)


def exp2_figure(x: np.ndarray, error: np.ndarray, degree: int, colors: theme.Palette) -> go.Figure:
    """Relative error of the polynomial over [0, 1), with lines at the rounding errors of 16-bit formats."""
    curve = charts.line(x, error, colors.key, 3, hovertemplate="x %{x:.3f}: %{y:.2e}<extra></extra>")
    title = f"relative error of 2<sup>x</sup> by a polynomial of degree {degree}"
    y = {"tickformat": ".0e", "nticks": 7, "exponentformat": "power"}
    figure = charts.chart([curve], colors, 280, title, {"title": "x"}, y, showlegend=False)
    for (name, size), color in zip(ROUNDING.items(), (colors.value, colors.state), strict=True):
        for sign in (1, -1):
            figure.add_hline(y=sign * size, line={"color": color, "dash": "dash", "width": 2})
        charts.note(figure, f"rounding to {name}", 0.5, y=size, yshift=10, font_color=color)
    return figure
