"""The numbers of one row of large tiles: the kernel runs again and writes down the row that is opened."""

from __future__ import annotations

import re

import streamlit as st

from kernels.trace import Trace
from kernels.worker.requests import TraceRequest
from viz.explore.current_run import WHOLE_S, duration
from viz.player.scene import ROW
from viz.shared import runs
from viz.shared.waiting import asked_job, result_of

ASKED = "picked_row"
"""Key in the session of the row that the page has seen in the URL."""


def can_pick(store: runs.RunStore | None, backend: str, run: runs.Run) -> bool:
    """Whether the run could be run here again, with the numbers of a row."""
    return store is not None and backend != "replay" and run.is_of_controls and run.algorithm.has_figure


def wanted_row(trace: Trace) -> int | None:
    """Offset in the query tiles of the row that the URL opens; None if none is, or all rows are recorded."""
    state = st.query_params
    match = re.fullmatch(ROW, state.get("row", "")) if state.get("open") == "tile" else None
    has_all = trace.matrices is not None and trace.matrix_row is None
    if match is None or has_all:
        return None
    return int(match.string.partition(".")[2]) % trace.problem.block_m


def with_picked_row(store: runs.RunStore | None, backend: str, run: runs.Run) -> runs.Run:
    """The same run with the numbers of the row that the URL opens, or `run` while they are not there."""
    row = wanted_row(run.trace)
    st.session_state[ASKED] = row
    if store is None or row is None or backend == "starting" or not can_pick(store, backend, run):
        return run
    problem, name = run.trace.problem, run.trace.algorithm
    seconds = runs.estimated_seconds(problem, run.algorithm, backend, run.trace.steps)
    if seconds > WHOLE_S:
        st.info(
            f"The numbers of a row come from a run of the kernel, which takes about {duration(seconds)} "
            "here: too long. Choose a shorter problem.",
            icon=":material/timer:",
        )
        return run
    notice = f"The numbers of this row come from a run that takes about {duration(seconds)} here."
    request = TraceRequest(problem, name, run.trace.sample, row)
    job = asked_job(store, request, seconds, "Run it for the numbers of this row", notice=notice, key="row")
    traced = result_of(store, job, "row") if job else None
    return runs.live_run(traced) if traced else run


def ask_for_row(trace: Trace) -> None:
    """Draw the page anew if the player has opened a row since the page was drawn."""
    if wanted_row(trace) != st.session_state.get(ASKED):
        st.rerun()
