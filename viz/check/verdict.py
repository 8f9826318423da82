"""The verdict of a case in words and cards, the numbers behind it, and maps of where the errors are."""

import math
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from kernels.algorithms import ALGORITHMS
from kernels.check.case.cases import UPLOADED, USERS
from kernels.check.report.report import ULP_LABELS, VERDICT_WORDS, error_row
from kernels.check.result import CheckResult, ErrorMap, TensorCheck
from kernels.oracle.report import RULE
from kernels.problem import AttentionProblem
from kernels.problem.tiles import visited_tiles
from viz.check.figures.maps import pickable_tiles, share_figure
from viz.shared import runs, theme
from viz.shared.figures.charts import chart
from viz.shared.formats import format_error, format_ratio, plain
from viz.shared.layout import Card, colors, draw_cards, explore_link, plot, segments
from viz.shared.provenance import library_versions, runner_words

WEIGHTS = (
    "The kernel runs once more on the same Q and K. The values are now 1 in a column of their own for each "
    "group of key tiles. So O is the weight that each row gives to each group: it shows along the keys where "
    "a kernel goes wrong, whatever kernel it is."
)
PLAYER_STEPS = 4096
"""The player draws at most this many steps. Links to longer runs do not name a step."""
LONGEST_NUMBER = 9
"""Digits of an index in the URL's `tile`."""


class Tile(NamedTuple):
    """A tile of the weights of one head."""

    head: int
    query: int
    key: int

    def put_into_url(self) -> None:
        """The URL's `tile` is what the page shows."""
        st.query_params["tile"] = ".".join(map(str, self))


def maps_panel(result: CheckResult) -> None:
    """Where the errors are: over the keys down to the tile, and over rows and columns."""
    if not result.maps:
        return
    st.subheader("Where the errors are", anchor="maps")
    left, right = st.columns(2, gap="large")
    with left:
        if weights := result.map("weights"):
            _weights_panel(result, weights)
        elif result.case.kernel == UPLOADED:
            st.caption("A result from a file cannot be asked what each row gives to each key tile.")
    with right:
        _tensor_panel(result)


def _weights_panel(result: CheckResult, weights: ErrorMap) -> None:
    st.caption(
        "**Over the keys**: how much each row attends to each key tile, against float64. Pick a tile.",
        help=WEIGHTS,
    )
    problem = result.case.problem
    tile = _chosen_tile(problem, weights)
    index = weights.heads.tolist().index(tile.head)
    figure = share_figure(weights, index, problem, colors(), (tile.query, tile.key))
    _clickable(figure, tile.head, pickable_tiles(weights, problem))
    _head_choice(weights.heads.tolist(), tile)
    _say_tile(problem, weights, index, tile)
    step = step_of(problem, tile)  # None if FlashAttention-2 does not visit the tile
    words = f"This tile in Explore, step {step}" if step else "This shape in Explore"
    words += " (same shape, generated inputs)" if result.case.upload else ""
    explore_link(words, problem, **({"step": str(step)} if step else {}))


def _clickable(figure: go.Figure, head: int, picks: list[tuple[int, int]]) -> None:
    """The chart with its tiles to pick: a click on the n-th puts `picks[n]` into the URL."""

    def pick() -> None:
        points = st.session_state["weights"].selection.points
        if points and 0 <= points[0]["point_index"] < len(picks):
            Tile(head, *picks[points[0]["point_index"]]).put_into_url()

    plot(figure, "weights", on_select=pick, selection_mode="points")


def _chosen_tile(problem: AttentionProblem, weights: ErrorMap) -> Tile:
    """The URL's `tile`, if this map has it; else the tile with the largest error."""
    parts = str(st.query_params.get("tile", "")).split(".")
    if len(parts) == 3 and all(p.isascii() and p.isdigit() and len(p) < LONGEST_NUMBER for p in parts):
        tile = Tile(*map(int, parts))
        if tile.head in weights.heads and tile.query < problem.q_tiles and tile.key < problem.kv_tiles:
            return tile
    values = np.nan_to_num(weights.values[0], nan=np.inf)
    row, column = map(int, np.unravel_index(np.argmax(values), values.shape))
    query, key = row * weights.row_step // problem.block_m, column * weights.column_step // problem.block_n
    return Tile(int(weights.heads[0]), query, key)


def _head_choice(heads: list[int], tile: Tile) -> None:
    if len(heads) < 2:
        return
    words, key = "Heads with the largest errors", f"head-{tile.head}-{heads}"
    chosen = st.segmented_control(words, heads, default=tile.head, required=True, key=key)
    if chosen != tile.head:
        tile._replace(head=chosen).put_into_url()
        st.rerun()


def _say_tile(problem: AttentionProblem, weights: ErrorMap, index: int, tile: Tile) -> None:
    last_row = min((tile.query + 1) * problem.block_m, problem.q_len) - 1
    rows = slice(tile.query * problem.block_m // weights.row_step, last_row // weights.row_step + 1)
    column = tile.key * problem.block_n // weights.column_step
    share = float(np.nan_to_num(weights.values[index][rows, column], nan=np.inf).max())
    times = "∞×" if math.isinf(share) else format_ratio(share)
    grouped = weights.column_step // problem.block_n
    group = f" ({grouped} key tiles share a column)" if grouped > 1 else ""
    words = f"Head {tile.head}, query tile {tile.query}, key tile {tile.key}"
    st.markdown(f"{words}: **{times}** the allowed error{group}.")


def step_of(problem: AttentionProblem, tile: Tile) -> int | None:
    """FlashAttention-2's step, from 1, that visits the tile; None if none does, or if not all are drawn."""
    visited = [visited_tiles(problem, q_tile) for q_tile in range(problem.q_tiles)]
    steps = [max(each.count, 1) for each in visited]
    turn = visited[tile.query].position(tile.key)
    drawn = sum(steps) * problem.batch * problem.q_heads <= PLAYER_STEPS
    if not drawn or turn is None:
        return None
    return tile.head * sum(steps) + sum(steps[: tile.query]) + turn + 1


def _tensor_panel(result: CheckResult) -> None:
    maps = {error_map.kind: error_map for error_map in result.maps if error_map.kind != "weights"}
    caption, chart = st.container(), st.container()
    kind = next((tensor.name for tensor in result.failing if tensor.name in maps), next(iter(maps)))
    if len(maps) > 1:
        kind = segments("Tensor", list(maps), "map", kind, label_visibility="collapsed")
    error_map = maps[kind]
    words = f"**{kind} over its columns**, head {error_map.heads[0]}. Red is more than the rule allows."
    caption.caption(words)
    with chart:
        plot(share_figure(error_map, 0, result.case.problem, colors()), key="tensor-map")
    cells = (
        "none" if error_map.codes is None else f"{np.count_nonzero(error_map.codes[0]):,} cells of this map"
    )
    st.caption(f"NaN and infinity, here or in float64: {cells}.")


MARKS = {
    "pass": ("green", "check_circle"),
    "fail": ("red", "cancel"),
    "invalid": ("gray", "block"),
    "error": ("orange", "warning"),
}
CAUSE_HELP = (
    "The result was held against masks that are off by one, missing tiles, other scales and head groupings, "
    "missing rescalings, and others. A cause that is named equals it, within the rule by which it does not "
    "equal attention."
)
REPEATS_HELP = (
    "The kernel ran several times on the same inputs. Different bits mean atomics, a race, or memory that "
    "nobody wrote. They do not change the verdict."
)


def verdict_title(verdict: str, words: str = "") -> None:
    """The verdict in capitals, or in other words, with its colour and icon."""
    color, icon = MARKS[verdict]
    st.markdown(f"## :{color}[:material/{icon}: {words or VERDICT_WORDS[verdict]}]")


def verdict_panel(result: CheckResult) -> None:
    """PASSES or FAILS, why, and where the numbers are from."""
    is_one_of_many = result.verdict == "pass" and result.case.kernel in USERS
    verdict_title(result.verdict, "PASSES this case" if is_one_of_many else "")
    st.markdown(f"**{plain(result.label)}**: {plain(result.reason)}.", help=RULE)
    if cause := result.cause_or_none_known:
        st.markdown(f":material/troubleshoot: **Cause**: {plain(cause)}.", help=CAUSE_HELP)
    for finding in result.findings:  # faults in the kernel's use of memory
        st.markdown(f":material/bug_report: **{finding.kind.capitalize()}**: {plain(finding.words)}.")
        if finding.file:
            st.code(f"# {finding.place}\n{finding.source}", language="python", wrap_lines=True)
    if result.trace:
        st.code(result.trace, language="python", wrap_lines=True)
    problem = result.case.problem
    if not result.refused:  # a kernel that refused was not run
        inputs = f"{problem.inputs} inputs, seed {problem.seed}"
        tensors = "tensors of your file" if result.case.upload else inputs
        st.caption(f"**Measured** on {result.device.name}, {_run_by(result)}; {tensors}.")
    if result.computed_by:
        st.caption(f":material/bolt: {plain(result.computed_by)}.")


def notes_panel(result: CheckResult) -> None:
    """What was held against what besides, and what was not."""
    for note in (*result.notes, *([f"{result.keyless.words}."] if result.keyless else [])):
        st.caption(f":material/info: {plain(note)}")


def _run_by(result: CheckResult) -> str:
    """What ran the kernel, with its version. Kernels that are not in the registry run under both."""
    device, kernel = result.device, result.case.kernel
    if kernel in ALGORITHMS:
        return runner_words(ALGORITHMS[kernel], device)
    if kernel == UPLOADED:
        return f"a result from your file, judged with torch {device.torch}"
    how = "by Triton's interpreter, " if result.interpreted else "with "
    return f"{how}{library_versions(device)}"


def cards(result: CheckResult) -> None:
    """One card per tensor, and one for repeatability."""
    found = []
    for each in result.tensors:
        allowed = _allowed_words(each.passes, each.tolerance)
        words = f"{each.wrong_nonfinite:,} NaN or ∞" if each.wrong_nonfinite else allowed
        found.append(Card(f"{each.name} error", format_error(each.max_error), words, passes=each.passes))
    if (repeats := result.repeats) and repeats.runs > 1:
        differing = f"{sum(repeats.differing.values()):,} values, by up to {format_error(repeats.largest)}"
        verdict = ("equal", "bit by bit") if repeats.equal else ("differ", differing)
        found.append(Card(f"{repeats.runs} runs", *verdict, REPEATS_HELP, repeats.equal))
    draw_cards(found)


def _allowed_words(passes: bool, tolerance: float) -> str:
    return f"{'≤' if passes else 'FAILS: >'} {format_error(tolerance)}"


def numbers_panel(result: CheckResult) -> None:
    """The errors of each tensor, and those of O in units in the last place; nothing if none was compared."""
    if not result.tensors:
        return
    st.subheader("Errors and what is allowed", anchor="errors")
    st.dataframe([error_row(each, format_error) for each in result.tensors], hide_index=True, key="numbers")
    output = result.tensor("O")
    if output and sum(output.ulps):
        st.subheader("Units in the last place", anchor="ulps")
        plot(ulps_figure(output, colors()), key="ulps")


def ulps_figure(tensor: TensorCheck, colors: theme.Palette) -> go.Figure:
    """Share of the elements by how many units in the last place they are off."""
    kinds = (
        ("this kernel", colors.flash, tensor.ulps),
        ("low-precision reference", colors.standard, tensor.naive_ulps),
    )
    bars = [
        go.Bar(
            x=ULP_LABELS,
            y=[count / max(sum(counts), 1) for count in counts],
            customdata=counts,
            name=name,
            marker_color=color,
            hovertemplate="%{y:.2%} of the elements (%{customdata:,})<extra>" + name + "</extra>",
        )
        for name, color, counts in kinds
    ]
    x = {"title_text": "error in units in the last place", "type": "category"}
    y = {"tickformat": ".0%", "rangemode": "tozero"}
    return chart(bars, colors, 310, "", x, y, barmode="group", bargap=0.25)


def recorded_verdict(problem: AttentionProblem, backend: str, start_failure: str | None) -> None:
    """The recorded error report of this problem where nothing can be checked, and why (`start_failure`)."""
    if backend == "starting":
        # A recorded verdict here would look like that of the kernel that is about to be checked.
        st.markdown("## :gray[:material/hourglass_top: The worker process is starting …]")
        return
    why = f"The worker process does not start: {start_failure}" if start_failure else "Triton is missing"
    words = plain(f"{why}. Nothing can be checked here; recorded verdicts are shown.")
    st.info(words, icon=":material/history:")
    run = runs.recorded(problem, "flash2")
    if run is None or run.report is None:
        st.caption("No recording of this problem. Choose one under “Start from”.")
        return
    report = run.report
    verdict_title("pass" if report.passes else "fail")
    st.markdown(f"**{run.algorithm.label}**: {run.provenance}.", help=RULE)
    allowed = _allowed_words(report.passes, report.tolerance)
    error = Card("O error", format_error(report.max_error), allowed, passes=report.passes)
    others = {"O mean error": report.mean_error, "Naive error": report.naive_max_error}
    draw_cards([error, *(Card(label, format_error(value)) for label, value in others.items())])
