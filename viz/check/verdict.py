"""The verdict of a case in words and cards, and maps of where the errors are."""

import math

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from kernels.algorithms import ALGORITHMS
from kernels.check.case.cases import USERS
from kernels.check.report.report import VERDICT_WORDS
from kernels.check.result import CheckResult, ErrorMap
from kernels.oracle.report import RULE
from kernels.problem import AttentionProblem
from viz.shared import theme
from viz.shared.figures.charts import chart
from viz.shared.formats import format_error, format_ratio, plain
from viz.shared.layout import Card, colors, draw_cards, explore_link, plot, segments
from viz.shared.provenance import library_versions, runner_words
from viz.shared.words import Words

WORDS = Words(__file__)
BY_KEY = ("dK", "dV")
"""Kinds of maps whose rows are keys."""
MOST_LINES = 40
"""Tile boundaries are drawn up to this many per axis."""
LEAST_SHARE, MOST_SHARE = 1e-3, 10
"""Errors beyond either share of the allowed one have the colour of it."""
HOVER = "row %{y:.0f}, column %{x:.0f}<br>%{customdata:.3g} of what is allowed<extra></extra>"


def maps_panel(result: CheckResult) -> None:
    """Where the errors are: over the keys down to the tile, and over rows and columns."""
    if not result.maps:
        return
    st.subheader("Where the errors are", anchor="maps")
    left, right = st.columns(2, gap="large")
    with left:
        if weights := result.map("weights"):
            _weights_panel(result, weights)
    with right:
        _tensor_panel(result)


def _weights_panel(result: CheckResult, weights: ErrorMap) -> None:
    st.caption(WORDS("over the keys"), help=WORDS("weights"))
    problem = result.case.problem
    values = np.nan_to_num(weights.values, nan=np.inf)
    row, column = map(int, np.unravel_index(np.argmax(values), values.shape))
    query, key = row * weights.row_step // problem.block_m, column * weights.column_step // problem.block_n
    share = float(values[row, column])
    plot(share_figure(weights, problem, colors()), key="weights")
    times = "∞×" if math.isinf(share) else format_ratio(share)
    grouped = weights.column_step // problem.block_n
    group = f" ({grouped} key tiles share a column)" if grouped > 1 else ""
    tile = f"Head {weights.head}, query tile {query}, key tile {key}"
    st.markdown(f"{tile}: **{times}** the allowed error{group}.")
    explore_link("This shape in Explore", problem)


def _tensor_panel(result: CheckResult) -> None:
    maps = {error_map.kind: error_map for error_map in result.maps if error_map.kind != "weights"}
    caption, place = st.container(), st.container()
    kind = next((tensor.name for tensor in result.failing if tensor.name in maps), next(iter(maps)))
    if len(maps) > 1:
        kind = segments("Tensor", list(maps), "map", kind, label_visibility="collapsed")
    error_map = maps[kind]
    words = f"**{kind} over its columns**, head {error_map.head}. Red is more than the rule allows."
    caption.caption(words)
    with place:
        plot(share_figure(error_map, result.case.problem, colors()), key="tensor-map")


MARKS = {
    "pass": ("green", "check_circle"),
    "fail": ("red", "cancel"),
    "invalid": ("gray", "block"),
    "error": ("orange", "warning"),
    "few": ("orange", "warning"),
}
"""Colour and icon of a verdict."""


def verdict_panel(result: CheckResult) -> None:
    """PASSES or FAILS, why, and where the numbers are from."""
    is_one_of_many = result.verdict == "pass" and result.case.kernel in USERS
    words, (color, icon) = VERDICT_WORDS[result.verdict], MARKS[result.verdict]
    st.markdown(f"## :{color}[:material/{icon}: {words}{' this case' if is_one_of_many else ''}]")
    st.markdown(f"**{plain(result.label)}**: {plain(result.reason)}.", help=RULE)
    if cause := result.cause_or_none_known:
        st.markdown(f":material/troubleshoot: **Cause**: {plain(cause)}.", help=WORDS("cause"))
    for finding in result.findings:  # faults in the kernel's use of memory
        st.markdown(f":material/bug_report: **{finding.kind.capitalize()}**: {plain(finding.words)}.")
        if finding.file:
            st.code(f"# {finding.place}\n{finding.source}", language="python", wrap_lines=True)
    if result.trace:
        st.code(result.trace, language="python", wrap_lines=True)
    problem = result.case.problem
    if not result.refused:  # a kernel that refused was not run
        inputs = f"{problem.inputs} inputs, seed {problem.seed}"
        st.caption(f"**Measured** on {result.device.name}, {_run_by(result)}; {inputs}.")
    if result.computed_by:
        st.caption(f":material/bolt: {plain(result.computed_by)}.")


def _run_by(result: CheckResult) -> str:
    """What ran the kernel, with its version. Kernels that are not in the registry run under both."""
    device, kernel = result.device, result.case.kernel
    if kernel in ALGORITHMS:
        return runner_words(ALGORITHMS[kernel], device)
    how = "by Triton's interpreter, " if result.interpreted else "with "
    return f"{how}{library_versions(device)}"


def cards(result: CheckResult) -> None:
    """One card per tensor, and one for repeatability."""
    found = []
    for each in result.tensors:
        allowed = f"{'≤' if each.passes else 'FAILS: >'} {format_error(each.tolerance)}"
        words = f"{each.wrong_nonfinite:,} NaN or ∞" if each.wrong_nonfinite else allowed
        found.append(Card(f"{each.name} error", format_error(each.max_error), words, passes=each.passes))
    if (repeats := result.repeats) and repeats.runs > 1:
        differing = f"{sum(repeats.differing.values()):,} values, by up to {format_error(repeats.largest)}"
        verdict = ("equal", "bit by bit") if repeats.equal else ("differ", differing)
        found.append(Card(f"{repeats.runs} runs", *verdict, WORDS("repeats"), repeats.equal))
    draw_cards(found)


def share_figure(error_map: ErrorMap, problem: AttentionProblem, colors: theme.Palette) -> go.Figure:
    """Errors over the allowed ones, of the worst head."""
    values = np.nan_to_num(error_map.values, nan=np.inf)
    shown = np.log10(np.clip(values, LEAST_SHARE, MOST_SHARE))
    of_keys = error_map.kind == "weights"
    heat = go.Heatmap(
        z=shown,
        x0=(error_map.column_step - 1) / 2,
        dx=error_map.column_step,
        y0=(error_map.row_step - 1) / 2,
        dy=error_map.row_step,
        customdata=np.minimum(values, 1e9),
        hovertemplate=HOVER,
        zmin=np.log10(LEAST_SHARE),
        zmax=np.log10(MOST_SHARE),
        colorscale=[[0, colors.background], [0.75, colors.query], [0.75, colors.bad], [1, colors.bad]],
        colorbar={
            "title": {"text": "error /<br>allowed", "font_size": 13},
            "tickvals": [-3, -2, -1, 0, 1],
            "ticktext": ["0.001", "0.01", "0.1", "1", "10"],
            "thickness": 14,
        },
    )
    plain = {"showgrid": False, "zeroline": False}
    columns = "key" if of_keys else "column of head_dim"
    rows, block = ("key", problem.block_n) if error_map.kind in BY_KEY else ("query", problem.block_m)
    x = plain | {"title_text": columns, "range": [-0.5, error_map.columns - 0.5]}
    y = plain | {"title_text": f"{rows} row", "range": [error_map.rows - 0.5, -0.5]}
    figure = chart([heat], colors, 380, "", x, y)
    shapes = _boundaries("y", error_map.rows, block, colors)
    if of_keys:
        shapes += _boundaries("x", error_map.columns, error_map.column_step, colors)
    return figure.update_layout(shapes=shapes)


def _boundaries(axis: str, total: int, step: int, colors: theme.Palette) -> list[dict]:
    """Lines between tiles of `step` rows ("y") or columns ("x"); none if they would be too many."""
    other = "x" if axis == "y" else "y"
    line: dict = {"type": "line", "line": {"color": colors.background, "width": 1}}
    line |= {f"{other}ref": f"{other} domain", f"{other}0": 0, f"{other}1": 1}
    places = [place - 0.5 for place in range(step, total, step)]
    return [line | {f"{axis}0": at, f"{axis}1": at} for at in places if len(places) < MOST_LINES]
