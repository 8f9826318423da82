"""Charts of the last chapter.

SMs at work, parts and their weights, clocks, 8-bit errors, late rescales, exponentials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from kernels.lessons.late_rescale import ROUNDING, LateRescale
from kernels.lessons.low_precision import PrecisionResult
from kernels.lessons.split_kv import Occupancy, SplitRow
from kernels.lessons.units import TileClocks
from viz.shared import theme
from viz.shared.figures.marks import hatched, set_title
from viz.shared.formats import format_count, format_error

SMS_PER_LINE = 33


def sm_figure(programs_of_sm: np.ndarray, programs: int, colors: theme.Palette) -> go.Figure:
    """One square for each SM, by the programs that it runs in the first wave."""
    lines = -(-len(programs_of_sm) // SMS_PER_LINE)
    padded = np.full(lines * SMS_PER_LINE, np.nan)
    padded[: len(programs_of_sm)] = programs_of_sm
    squares = padded.reshape(lines, SMS_PER_LINE)[::-1]
    figure = go.Figure(
        go.Heatmap(
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
    )
    busy = int((programs_of_sm > 0).sum())
    theme.style_figure(figure, colors, height=44 + 22 * lines)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    title = f"<b>{busy} of {len(programs_of_sm)} SMs busy</b>, {format_count(programs, 'program')}"
    figure.update_layout(
        title={"text": title, "font_size": 15, "y": 0.97, "x": 0}, margin={"l": 0, "r": 0, "t": 30, "b": 2}
    )
    return figure


def split_steps_figure(
    curve: Sequence[Occupancy], chosen: Occupancy, rule: Occupancy, colors: theme.Palette
) -> go.Figure:
    """Tile steps until the last program ends, over the number of parts.

    The kernel's rule and the reader's choice are marked.
    """
    figure = go.Figure(
        go.Scatter(
            x=[plan.splits for plan in curve],
            y=[plan.tile_steps for plan in curve],
            mode="lines+markers",
            line={"color": colors.muted, "width": 2, "shape": "linear"},
            marker={"size": 7},
            customdata=[[plan.programs, plan.waves, plan.tiles_per_split] for plan in curve],
            hovertemplate="%{x} parts of %{customdata[2]} tiles: %{customdata[0]} programs, "
            "waves: %{customdata[1]}, %{y} tile steps<extra></extra>",
            name="each number of parts",
        )
    )
    marked = (
        (rule, "the kernel's rule", colors.flash, "diamond", 15),
        (chosen, "shown", colors.now, "circle-open", 18),
    )
    for plan, name, color, symbol, size in marked:
        marker = {"size": size, "color": color, "symbol": symbol, "line": {"width": 3, "color": color}}
        hover = f"{name}: %{{x}} parts, %{{y}} tile steps<extra></extra>"
        figure.add_scatter(
            x=[plan.splits],
            y=[plan.tile_steps],
            mode="markers",
            name=name,
            marker=marker,
            hovertemplate=hover,
        )
    theme.style_figure(figure, colors, height=300)
    figure.update_xaxes(type="log", tickvals=_powers_of_two(curve[-1].splits))
    figure.update_yaxes(type="log", tickvals=_powers_of_two(max(plan.tile_steps for plan in curve)))
    set_title(figure, "tile steps until the last program ends, by parts")
    return figure.update_layout(legend={"y": -0.12, "yanchor": "top"})


def _powers_of_two(largest: int) -> list[int]:
    """1, 2, 4 and so on, or every other of them, so that an axis has at most ten ticks or so."""
    exponents = range(0, largest.bit_length(), 1 if largest <= 1024 else 2)
    return [1 << exponent for exponent in exponents]


def parts_figure(row: SplitRow, colors: theme.Palette) -> go.Figure:
    """The weight of each part in the merged row; hovering gives its m, l and lse."""
    keys = [
        f"{first}–{end - 1}" for first, end in zip(row.first_key.tolist(), row.end_key.tolist(), strict=True)
    ]
    figure = go.Figure(
        go.Bar(
            x=list(range(len(keys))),
            y=row.weights,
            marker_color=colors.state,
            customdata=np.stack([row.row_max, row.row_sum, row.lse_of_part], axis=1),
            hovertext=keys,
            hovertemplate="keys %{hovertext}<br>m %{customdata[0]:.4f}, l %{customdata[1]:.4f}, "
            "lse %{customdata[2]:.4f}<br>weight %{y:.4f}<extra></extra>",
        )
    )
    theme.style_figure(figure, colors, height=240)
    figure.update_xaxes(title="part", dtick=1 if len(keys) <= 16 else None)
    figure.update_yaxes(rangemode="tozero", nticks=5)
    set_title(figure, "weight of each part, exp(lse of the part − lse)")
    return figure.update_layout(bargap=0.15)


def clocks_figure(
    clocks: Mapping[str, TileClocks], colors: theme.Palette, with_overlap: bool = True
) -> go.Figure:
    """Two bars for each GPU: its units one after the other, and overlapped, as long as the slowest.

    Without `with_overlap` only the first of the two.
    """
    figure = go.Figure()
    names = list(clocks)
    in_turn, overlapped = ([f"{gpu}, {way}" for gpu in names] for way in ("in turn", "overlapped"))
    labels = [name for pair in zip(in_turn, overlapped, strict=True) for name in pair]
    labels = labels if with_overlap else in_turn
    units = (
        ("tensor cores", "tensor_cores", colors.query, ""),
        ("exponentials", "exponentials", colors.key, "x"),
        ("polynomial", "polynomial", colors.value, "."),
    )
    for title, field, color, pattern in units:
        values = [getattr(clocks[gpu], field) for gpu in names]
        if not any(values):
            continue
        hover = f"{title}: %{{x:,.0f}} clocks<extra></extra>"
        marker = hatched(color, pattern, colors)
        figure.add_bar(name=title, y=in_turn, x=values, orientation="h", marker=marker, hovertemplate=hover)
    if with_overlap:
        slowest = [max(units, key=lambda unit: getattr(clocks[gpu], unit[1])) for gpu in names]
        figure.add_bar(
            y=overlapped,
            x=[clocks[gpu].overlapped for gpu in names],
            orientation="h",
            marker_color=[unit[2] for unit in slowest],
            text=[f"{clocks[gpu].overlapped:,.0f}" for gpu in names],
            textposition="inside",
            textfont={"color": colors.background},
            showlegend=False,
            customdata=[unit[0] for unit in slowest],
            hovertemplate="%{y}: %{x:,.0f} clocks, set by the %{customdata}<extra></extra>",
        )
    theme.style_figure(figure, colors, height=76 + 32 * len(labels))
    figure.update_yaxes(autorange="reversed", showgrid=False, categoryorder="array", categoryarray=labels)
    figure.update_xaxes(title="clocks of one SM for one tile")
    figure.update_layout(barmode="stack", bargap=0.18)
    return figure


def precision_figure(results: Sequence[PrecisionResult], colors: theme.Palette) -> go.Figure:
    """Root mean square error of each way to round."""
    patterns = ["." if "block" in result.label else "" for result in results]
    shades = [_precision_color(result.label, colors) for result in results]
    figure = go.Figure(
        go.Bar(
            y=[result.label.replace(", ", ",<br>", 1) for result in results],
            x=[result.rmse for result in results],
            orientation="h",
            marker=hatched(shades, patterns, colors),
            text=[format_error(result.rmse) for result in results],
            textposition="outside",
            cliponaxis=False,
            customdata=[result.largest for result in results],
            hovertemplate="%{y}: RMSE %{x:.2e}, largest %{customdata:.2e}<extra></extra>",
        )
    )
    theme.style_figure(figure, colors, height=330)
    figure.update_xaxes(
        showticklabels=False, showgrid=False, range=[0, 1.5 * max(result.rmse for result in results)]
    )
    figure.update_yaxes(autorange="reversed", showgrid=False)
    set_title(figure, "root mean square error of O against float64")
    return figure.update_layout(bargap=0.25)


def _precision_color(label: str, colors: theme.Palette) -> str:
    if label == "float16":
        return colors.muted
    return colors.flash if "rotated" in label else colors.standard


def rotation_figure(before: np.ndarray, after: np.ndarray, colors: theme.Palette) -> go.Figure:
    """Magnitudes of one row of K, as it is and rotated."""
    figure = go.Figure()
    for name, values, color in (("as it is", before, colors.standard), ("rotated", after, colors.flash)):
        figure.add_trace(
            go.Bar(
                name=name,
                y=np.abs(values),
                marker_color=color,
                hovertemplate=f"{name}, feature %{{x}}: %{{y:.2f}}<extra></extra>",
            )
        )
    theme.style_figure(figure, colors, height=260)
    figure.update_xaxes(title="feature")
    set_title(figure, "magnitudes of the row of K with the largest entry")
    return figure.update_layout(margin_t=66, bargap=0.1)


def late_rescale_figure(results: Sequence[LateRescale], chosen: int, colors: theme.Palette) -> go.Figure:
    """Share of row-tile pairs that rescale, over the threshold."""
    shares = [result.rescales / max(result.row_steps, 1) for result in results]
    figure = go.Figure(
        go.Bar(
            x=[f"2<sup>{result.threshold:g}</sup>" for result in results],
            y=shares,
            marker={
                "color": colors.state,
                "line": {
                    "color": colors.text,
                    "width": [3 if result.threshold == chosen else 0 for result in results],
                },
            },
            text=[f"{result.rescales:,}" for result in results],
            textposition="outside",
            cliponaxis=False,
            customdata=[[result.rescales, result.row_steps] for result in results],
            hovertemplate="%{customdata[0]:,} of %{customdata[1]:,} row-tile pairs rescale<extra></extra>",
        )
    )
    theme.style_figure(figure, colors, height=280)
    figure.update_xaxes(title="the max may grow by this factor without a rescale", type="category")
    figure.update_yaxes(tickformat=".0%", range=[0, 1.15 * max(*shares, 0.01)], nticks=5)
    set_title(figure, "rescales, as a share of all row-tile pairs")
    return figure.update_layout(bargap=0.25)


def exp2_figure(x: np.ndarray, error: np.ndarray, degree: int, colors: theme.Palette) -> go.Figure:
    """Relative error of the polynomial over [0, 1), with lines at the rounding errors of 16-bit formats."""
    figure = go.Figure()
    for (name, size), color in zip(ROUNDING.items(), (colors.value, colors.state), strict=True):
        for sign in (1, -1):
            figure.add_hline(y=sign * size, line={"color": color, "dash": "dash", "width": 2})
        figure.add_annotation(
            x=0.5, y=size, text=f"rounding to {name}", showarrow=False, yshift=10, font_color=color
        )
    hover = "x %{x:.3f}: %{y:.2e}<extra></extra>"
    figure.add_trace(
        go.Scatter(
            x=x,
            y=error,
            mode="lines",
            line={"color": colors.key, "width": 3},
            name=f"degree {degree}",
            hovertemplate=hover,
        )
    )
    theme.style_figure(figure, colors, height=280)
    figure.update_xaxes(title="x")
    figure.update_yaxes(tickformat=".0e", nticks=7, exponentformat="power")
    set_title(figure, f"relative error of 2<sup>x</sup> by a polynomial of degree {degree}")
    return figure.update_layout(showlegend=False)
