"""The grid of the Check page: many cases one after the other, failures first. Each row opens its case."""

from __future__ import annotations

import streamlit as st

from kernels.check.cases import (
    TRUSTED_CAUSAL_SHAPES,
    TRUSTED_SHAPES,
    CheckCase,
    Grid,
    grid_cases,
    parse_shapes,
)
from kernels.check.report import to_json
from kernels.check.result import CheckResult
from kernels.problem import DTYPES, MASKS, InvalidProblem
from viz.check.context import CheckContext
from viz.check.grid_run import GridRun, Outcome, verdict_of, worst_share

TRUSTED = "trusted"
HEAD_DIMS = (16, 32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256)
STATE = "grid_run"
POLL_S = 0.4
SHARE = "error / allowed"
VERDICT_WORDS = {"pass": "passes", "fail": "FAILS", "invalid": "not checked", "error": "error"}


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
    if grid is None:
        return
    run: GridRun | None = st.session_state.get(STATE)
    busy = run is not None and run.cases == grid.cases and run.running
    with st.container(horizontal=True, vertical_alignment="center"):
        words = f"Run {len(grid.cases)} cases"
        if st.button(words, type="primary", icon=":material/play_arrow:", disabled=busy):
            if run is not None:
                run.stop()
            run = st.session_state[STATE] = GridRun(grid.cases)
        if grid.words:
            st.caption(f":material/info: {grid.words}.")
    if run is None:
        st.caption(
            "Lengths, head_dim, dtype and mask are chosen here. Heads, tiles, inputs and seed are those of "
            "the sidebar."
        )
    elif run.running:
        _running(context, run)
    else:
        _ended(run)


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
        st.error(str(error), icon=":material/error:")
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
    if right.button("Cancel", icon=":material/stop:", key="cancel-grid"):
        run.stop()
        st.rerun()
    if rows := [_row(case, outcome) for case, outcome in run.outcomes()]:
        st.dataframe(rows, hide_index=True, key="grid-so-far", column_config=_columns(), height="auto")


def _ended(run: GridRun) -> None:
    """The count of each verdict, and the table whose rows open their case."""
    outcomes = run.outcomes()
    st.markdown(_summary(run, [verdict_of(outcome) for _, outcome in outcomes]))
    if not outcomes:
        return
    st.dataframe(
        [_row(case, outcome) for case, outcome in outcomes],
        hide_index=True,
        key="grid-table",
        on_select=lambda: _open(outcomes),
        selection_mode="single-row",
        column_config=_columns(),
        height="auto",
    )
    results = [outcome for _, outcome in outcomes if isinstance(outcome, CheckResult)]
    st.caption("Select a row to open its case.")
    st.download_button(
        "All numbers as JSON",
        lambda: to_json(results, [None] * len(results)),
        "check-grid.json",
        "application/json",
        icon=":material/download:",
        on_click="ignore",
    )


def _summary(run: GridRun, verdicts: list[str]) -> str:
    failed, passed = verdicts.count("fail"), verdicts.count("pass")
    rest = len(verdicts) - failed - passed
    counts = [
        f":red[**{failed} fail**]" if failed else "",
        f":green[**{passed} pass**]" if passed else "",
        f"{rest} not checked" if rest else "",
    ]
    short = run.stopped or len(verdicts) < len(run.cases)
    stopped = f"; stopped after {len(verdicts)} of {len(run.cases)} cases" if short else ""
    return " · ".join(filter(None, counts)) + stopped


def _columns() -> dict:
    words = "the largest of all tensors; above 1 fails"
    return {SHARE: st.column_config.NumberColumn(SHARE, format="%.2f", help=words)}


def _row(case: CheckCase, outcome: Outcome) -> dict[str, str | int | float | None]:
    problem = case.problem
    row: dict[str, str | int | float | None] = {
        "verdict": VERDICT_WORDS[verdict_of(outcome)],
        "query": problem.q_len,
        "key": problem.kv_len,
        "head_dim": problem.head_dim,
        "dtype": problem.dtype,
        "mask": problem.mask,
    }
    if isinstance(outcome, Exception):
        return row | {SHARE: None, "repeated": "", "why": str(outcome)}
    repeated = "" if outcome.repeats is None else "equal" if outcome.repeats.equal else "differs"
    share = worst_share(outcome) if outcome.tensors else None
    return row | {SHARE: share, "repeated": repeated, "why": outcome.reason}


def _open(outcomes: list[tuple[CheckCase, Outcome]]) -> None:
    """Put the case of the selected row into the widgets, and with them into the URL."""
    rows = st.session_state["grid-table"].selection.rows
    if rows and rows[0] < len(outcomes):
        case, _ = outcomes[rows[0]]
        for name, value in case.problem.as_dict().items():
            st.session_state[name] = value
        st.session_state["view"] = "case"
