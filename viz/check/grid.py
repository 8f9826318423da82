"""The grid of the Check page: many cases one after the other, failures first, each row opens its case."""

from __future__ import annotations

import streamlit as st

from kernels.check.cases import TRUSTED_CAUSAL_SHAPES, TRUSTED_SHAPES, CheckCase, grid_cases, parse_shapes
from kernels.check.report import to_json
from kernels.check.result import CheckResult
from kernels.check.user_kernel import UserKernel
from kernels.problem import DTYPES, MASKS, InvalidProblem
from viz.check.runs import GridRun, worst_share
from viz.shared import runs

TRUSTED = "trusted"
HEAD_DIMS = (16, 32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256)
STATE = "grid_run"
SHAPES_HELP = (
    f"Lengths such as 256, 113x203, separated by commas (query x key); or “{TRUSTED}” for the list of FlashAttention's own tests: "
    f"{', '.join(f'{q}x{k}' for q, k in TRUSTED_SHAPES)}; causal also {', '.join(f'{q}x{k}' for q, k in TRUSTED_CAUSAL_SHAPES)}."
)


def grid_page(store: runs.RunStore, backend: str, base: CheckCase, user: UserKernel | None) -> None:
    """Choose the grid, run it, and show what has ended."""
    grid = _controls(backend, base)
    if grid is None:
        return
    run: GridRun | None = st.session_state.get(STATE)
    current = run is not None and run.cases == grid.cases
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button(
            f"Run {len(grid.cases)} cases",
            type="primary",
            icon=":material/play_arrow:",
            disabled=current and run.running,
        ):
            if run is not None:
                run.stop()
            run = st.session_state[STATE] = GridRun(grid.cases, grid.words, user)
        if grid.words:
            st.caption(f":material/info: {grid.words}.")
    if run is None:
        st.caption(
            "Heads, tiles, inputs and seed are those of the sidebar; lengths, head_dim, dtype and mask are these."
        )
        return
    if run.running:
        _running(store, run)
    else:
        _table(run)


def _controls(backend: str, base: CheckCase) -> object | None:
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


@st.fragment(run_every=0.4)
def _running(store: runs.RunStore, run: GridRun) -> None:
    """Hands out the next cases, with what has ended below the bar."""
    run.advance(store)
    if not run.running:
        st.rerun()
    left, right = st.columns([5, 1], vertical_alignment="bottom")
    now = next((job for job in run.jobs if not job.done), None)
    waits = f", {now.jobs_ahead} jobs of others ahead" if now and now.jobs_ahead else ""
    left.progress(run.done / len(run.cases), text=f"{run.done} of {len(run.cases)} cases checked{waits}")
    if right.button("Cancel", icon=":material/stop:", key="cancel-grid"):
        run.stop()
        st.rerun()
    _draw(run)


def _table(run: GridRun) -> None:
    ended = run.outcomes()
    verdicts = [outcome.verdict if isinstance(outcome, CheckResult) else "error" for _, outcome in ended]
    failed, passed = verdicts.count("fail"), verdicts.count("pass")
    rest = len(ended) - failed - passed
    words = [
        f":red[**{failed} fail**]" if failed else "",
        f":green[**{passed} pass**]" if passed else "",
        f"{rest} not checked" if rest else "",
    ]
    stopped = (
        f"; stopped after {len(ended)} of {len(run.cases)} cases"
        if len(ended) < len(run.cases) or run.stopped
        else ""
    )
    st.markdown(" · ".join(filter(None, words)) + stopped)
    if not ended:
        return
    _draw(run, on_select=lambda: _open(ended))
    results = [outcome for _, outcome in ended if isinstance(outcome, CheckResult)]
    st.caption("Select a row to open its case.")
    st.download_button(
        "All numbers as JSON", lambda: to_json(results, [None] * len(results)), "check-grid.json", "application/json",
        icon=":material/download:", on_click="ignore",
    )  # fmt: skip


def _draw(run: GridRun, on_select: object = "ignore") -> None:
    rows = [_row(case, outcome) for case, outcome in run.outcomes()]
    if rows:
        table = {name: [row[name] for row in rows] for name in rows[0]}
        share = st.column_config.NumberColumn(
            "error / allowed", format="%.2f", help="the largest of all tensors; above 1 fails"
        )
        st.dataframe(
            table, hide_index=True, key="grid-table", on_select=on_select, selection_mode="single-row", column_config={"error / allowed": share},
            height="auto",
        )  # fmt: skip


def _row(case: CheckCase, outcome: CheckResult | Exception) -> dict:
    problem = case.problem
    shape = {"query": problem.q_len, "key": problem.kv_len, "head_dim": problem.head_dim}
    row = {"verdict": "error", **shape, "dtype": problem.dtype, "mask": problem.mask}
    if isinstance(outcome, Exception):
        return row | {"error / allowed": None, "repeated": "", "why": str(outcome)}
    repeated = "" if outcome.repeats is None else "equal" if outcome.repeats.equal else "differs"
    word = {"pass": "passes", "fail": "FAILS", "invalid": "not checked"}[outcome.verdict]
    return row | {
        "verdict": word,
        "error / allowed": worst_share(outcome) if outcome.tensors else None,
        "repeated": repeated,
        "why": outcome.reason,
    }


def _open(ended: list) -> None:
    """Put the case of the selected row into the widgets, and with them into the URL."""
    rows = st.session_state["grid-table"].selection.rows
    if rows and rows[0] < len(ended):
        case, _ = ended[rows[0]]
        for name, value in case.problem.as_dict().items():
            st.session_state[name] = value
        st.session_state["view"] = "case"
