"""The grid of the Check page: many cases one after the other, failures first. Each row opens its case."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from kernels.check.battery import battery
from kernels.check.cases import (
    TRUSTED_CAUSAL_SHAPES,
    TRUSTED_SHAPES,
    USERS,
    CheckCase,
    Grid,
    estimated_seconds,
    grid_cases,
    parse_shapes,
)
from kernels.check.report import Report, to_json
from kernels.check.result import CheckResult
from kernels.check.summary import VERDICT_WORDS, by_kernel, causes, hints, side_by_side, summary
from kernels.problem import DTYPES, MASKS, InvalidProblem
from viz.check.context import CheckContext
from viz.check.grid_run import GridRun, Outcome, verdict_of
from viz.shared.formats import plain

TRUSTED = "trusted"
HEAD_DIMS = (16, 32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256)
GRID_IN_URL = ("shapes", "head_dims", "dtypes", "masks")
"""Names of a grid's controls in the URL."""
STATE = "grid_run"
POLL_S = 0.4
GRID_WORDS = (
    "Lengths, head_dim, dtype and mask are chosen here. "
    "Heads, tiles, inputs and seed are those of the sidebar."
)
SHARE = "error / allowed"
FILE_FIRST = "The view “case” shows your file. Remove it, then select a row here to open its case."


def _shape_words(shapes: tuple[tuple[int, int], ...]) -> str:
    return ", ".join(f"{q_len}x{kv_len}" for q_len, kv_len in shapes)


SHAPES_HELP = (
    f"Lengths such as 256, 113x203, separated by commas (query x key); or “{TRUSTED}” for the list of "
    f"FlashAttention's own tests: {_shape_words(TRUSTED_SHAPES)}; causal also "
    f"{_shape_words(TRUSTED_CAUSAL_SHAPES)}."
)


def grid_panel(context: CheckContext, base: CheckCase) -> None:
    """Choose the grid, run it, and show what has ended."""
    grid = _grid_controls(context.backend, base)
    if grid is not None:
        _run_panel(context, grid, GRID_WORDS)


def battery_panel(context: CheckContext, base: CheckCase) -> None:
    """The battery of small cases: for the chosen kernel; for all of the user's if it is one of them."""
    own = USERS[: len(context.users)]
    kernels = own if base.kernel in own else (base.kernel,)
    cases = [case for name in kernels for case in battery(replace(base, kernel=name, repeats=2))]
    seconds = sum(estimated_seconds(case, context.backend) for case in cases)
    words = f"Small cases, each with something that kernels get wrong: about {seconds:,.0f} s here."
    _run_panel(context, Grid(tuple(cases), ()), words)


def _run_panel(context: CheckContext, grid: Grid, about: str) -> None:
    """The button that runs the cases, and what has ended of them.

    A run of other cases, or of an older version of the file, is not shown.
    """
    run: GridRun | None = st.session_state.get(STATE)
    if run is not None and (run.cases != grid.cases or run.is_older(context)):
        run.stop(context)
        run = st.session_state[STATE] = None
    with st.container(horizontal=True, vertical_alignment="center"):
        words = f"Run {len(grid.cases)} cases"
        busy = run is not None and run.running
        st.button(
            words,
            type="primary",
            icon=":material/play_arrow:",
            disabled=busy,
            on_click=_start,
            args=(context, grid.cases),
        )
        if grid.words:
            st.caption(f":material/info: {grid.words}.")
    if run is None:
        st.caption(about)
    elif run.running:
        _running(context, run)
    else:
        _ended(context, run)


def _start(context: CheckContext, cases: tuple[CheckCase, ...]) -> None:
    """Check the cases, anew if they were checked before."""
    if earlier := st.session_state.get(STATE):
        earlier.forget(context)
    st.session_state[STATE] = GridRun(cases)


def _grid_controls(backend: str, base: CheckCase) -> Grid | None:
    columns = st.columns([2, 1, 1, 1])
    shapes = columns[0].text_input(
        "shapes", TRUSTED, key="shapes", bind="query-params", max_chars=600, help=SHAPES_HELP
    )
    head_dims = columns[1].multiselect("head_dim", HEAD_DIMS, [64], key="head_dims", bind="query-params")
    dtypes = columns[2].multiselect("dtypes", list(DTYPES), ["float16"], key="dtypes", bind="query-params")
    masks = columns[3].multiselect("masks", MASKS, ["full", "causal"], key="masks", bind="query-params")
    try:
        chosen = None if shapes.strip().lower() == TRUSTED else parse_shapes(shapes)
        grid = grid_cases(base, backend, chosen, head_dims, dtypes, masks)
    except InvalidProblem as error:
        st.error(plain(str(error)), icon=":material/error:")
        return None
    if not grid.cases:
        st.warning(f"Nothing is left to run: {grid.words}. Choose shorter shapes.", icon=":material/timer:")
        return None
    return grid


@st.fragment(run_every=POLL_S)
def _running(context: CheckContext, run: GridRun) -> None:
    """Hands out the next cases, with what has ended below the bar."""
    run.advance(context)
    if not run.running:
        st.rerun()
    left, right = st.columns([5, 1], vertical_alignment="bottom")
    now = next((job for job in run.jobs if not job.done), None)
    waits = f", {now.jobs_ahead} jobs of others ahead" if now and now.jobs_ahead else ""
    left.progress(run.done / len(run.cases), text=f"{run.done} of {len(run.cases)} cases checked{waits}")
    right.button("Cancel", icon=":material/stop:", key="cancel-grid", on_click=run.stop, args=(context,))
    if rows := [_row(context, case, outcome) for case, outcome in run.outcomes(context)]:
        st.dataframe(rows, hide_index=True, key="grid-so-far", column_config=_columns(), height="auto")


def _ended(context: CheckContext, run: GridRun) -> None:
    """What failed and why, and the table whose rows open their case."""
    outcomes = run.outcomes(context)
    st.markdown(_counts(run, [verdict_of(outcome) for _, outcome in outcomes]))
    if not outcomes:
        return
    results = [outcome for _, outcome in outcomes if isinstance(outcome, CheckResult)]
    _summaries(results)
    st.dataframe(
        [_row(context, case, outcome) for case, outcome in outcomes],
        hide_index=True,
        key="grid-table",
        on_select="ignore" if context.file else lambda: _open(outcomes),
        selection_mode="single-row",
        column_config=_columns(),
        height="auto",
    )
    st.caption(FILE_FIRST if context.file else "Select a row to open its case.")
    st.download_button(
        "All numbers as JSON",
        lambda: to_json([*map(Report, results)]),
        "check-grid.json",
        "application/json",
        icon=":material/download:",
        on_click="ignore",
    )


def _summaries(results: list[CheckResult]) -> None:
    """A sentence per kernel, and several kernels side by side."""
    of_kernels = by_kernel(results)
    for found in of_kernels:
        st.markdown(f"**{plain(found[0].label)}**: {plain(summary(found))}.")
        for words in causes(found):
            st.markdown(f":material/troubleshoot: {plain(words[0].upper() + words[1:])}.")
        for words in hints(found):
            st.markdown(f":material/info: {plain(words[0].upper() + words[1:])}.")
    if len(of_kernels) > 1:
        header, *rows = side_by_side(of_kernels)
        st.caption("Side by side: the verdict, and the largest error over what is allowed.")
        repeated = {label for label in header if header.count(label) > 1}
        labels = [f"{label} ({n})" if label in repeated else label for n, label in enumerate(header)]
        table = [dict(zip(labels, row, strict=True)) for row in rows]
        st.dataframe(table, hide_index=True, key="side-by-side")


def _counts(run: GridRun, verdicts: list[str]) -> str:
    failed, passed = verdicts.count("fail"), verdicts.count("pass")
    none = verdicts.count("error")
    rest = len(verdicts) - failed - passed - none
    counts = [
        f":red[**{failed} fail**]" if failed else "",
        f":green[**{passed} pass**]" if passed else "",
        f":orange[**{none} without a verdict**]" if none else "",
        f"{rest} not checked" if rest else "",
    ]
    short = run.stopped or len(verdicts) < len(run.cases)
    stopped = f"; stopped after {len(verdicts)} of {len(run.cases)} cases" if short else ""
    return " · ".join(filter(None, counts)) + stopped


def _columns() -> dict:
    words = "the largest of all tensors; above 1 fails"
    return {SHARE: st.column_config.NumberColumn(SHARE, format="%.2f", help=words)}


def _row(context: CheckContext, case: CheckCase, outcome: Outcome) -> dict[str, str | int | float | None]:
    problem, user = case.problem, context.user(case)
    row: dict[str, str | int | float | None] = {
        "verdict": VERDICT_WORDS[verdict_of(outcome)],
        "kernel": user.name if user else case.kernel,
        "query": problem.q_len,
        "key": problem.kv_len,
        "head_dim": problem.head_dim,
        "dtype": problem.dtype,
        "mask": problem.mask,
        "more": case.more_words,
    }
    if isinstance(outcome, Exception):
        return row | {SHARE: None, "repeated": "", "why": str(outcome), "cause": ""}
    repeated = "" if outcome.repeats is None else "equal" if outcome.repeats.equal else "differs"
    share = outcome.worst_share if outcome.tensors else None
    return row | {SHARE: share, "repeated": repeated, "why": outcome.reason, "cause": outcome.cause}


def _open(outcomes: list[tuple[CheckCase, Outcome]]) -> None:
    """Put the case of the selected row into the widgets, and with them into the URL."""
    rows = st.session_state["grid-table"].selection.rows
    if rows and rows[0] < len(outcomes):
        case, _ = outcomes[rows[0]]
        for name, value in case.problem.as_dict().items():
            st.session_state[name] = value
        for name in ("kernel", "layout", "scale"):
            st.session_state[name] = getattr(case, name)
        st.session_state["view"] = "case"
