"""A saved trace that the user opens: from the sidebar, or by `--trace file.npz` on the command line.

The error of a saved or shipped trace is computed here, if it holds its results.
"""

import functools
import hashlib
from dataclasses import replace
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.check.files.trace_file import MAX_FILE_BYTES, read_trace
from kernels.check.files.uploads import InvalidUpload
from kernels.oracle.report import ErrorReport
from kernels.trace import Trace
from kernels.traffic.modelled import attention_flops
from kernels.worker.requests import JudgeRequest
from viz.explore.choice import Machine
from viz.player.data import sampled_share
from viz.shared import runs
from viz.shared.formats import plain
from viz.shared.options import named_file
from viz.shared.waiting import asked_job, result_of

ORACLE_FLOPS = {"cuda": 2e11, "interpreter": 4e9}
"""Operations per second of the float64 oracle and its references; a rough, low guess."""
CLOSED = "trace_closed"
"""Key in the session: whether the user has closed the trace that the command line names."""


def opened_run(machine: Machine) -> runs.Run | None:
    """The run of the file that is open; None without one, and if it is refused, which the page says."""
    data, name = _opened()
    if not name:
        return None
    try:
        trace = _read(data)
    except InvalidUpload as error:
        st.error(plain(f"{name}: {error}"), icon=":material/error:")
        return None
    words = f"This is {plain(name)}. Close it to go on with the problem in the sidebar."
    st.info(words, icon=":material/folder_open:")
    return runs.Run(trace, _report(machine, trace), recorded=True, file=name, judged_here=True)


def judged_again(machine: Machine, run: runs.Run, button_place: DeltaGenerator) -> runs.Run:
    """A shipped recording that holds its results, with its error computed here once that was asked for."""
    is_shipped = run.recorded and run.is_of_controls
    if not is_shipped or not _has_results(run.trace) or not machine.has_worker:
        return run
    key = f"judged {run.trace.algorithm} {run.trace.problem}"
    icon = ":material/fact_check:"
    button_place.button("Compute its error here", icon=icon, width="stretch", on_click=_remember, args=(key,))
    report = _report(machine, run.trace) if key in st.session_state else None
    return replace(run, report=report, judged_here=True) if report else run


def _has_results(trace: Trace) -> bool:
    return trace.output is not None or trace.d_query is not None


def _remember(key: str) -> None:
    st.session_state[key] = True


def _opened() -> tuple[bytes, str]:
    """The file that was dropped in the sidebar, or that of the command line; its name is "" for none."""
    with st.sidebar.expander("Open a saved trace (.npz)"):
        file = st.file_uploader(
            "A trace that Explore or `Trace.save` wrote",
            ["npz"],
            help="It plays as it was recorded. Its error is computed here from its problem and its output.",
        )
    if file is not None:
        return file.getvalue(), file.name
    path = named_file("--trace")
    if path is None or st.session_state.get(CLOSED):
        return b"", ""
    icon = ":material/close:"
    st.sidebar.button(f"Close {path.name}", icon=icon, width="stretch", on_click=_remember, args=(CLOSED,))
    try:
        return _file_bytes(path, path.stat().st_mtime_ns), path.name
    except OSError as error:
        st.error(f"--trace {path}: {error}. Give the path of a saved trace.", icon=":material/error:")
        return b"", ""


@functools.lru_cache(maxsize=1)
def _file_bytes(path: Path, _modified: int) -> bytes:
    """The file, read once; of a larger one only so much that it is refused as too large."""
    with path.open("rb") as file:
        return file.read(MAX_FILE_BYTES + 1)


_read = functools.lru_cache(maxsize=2)(read_trace)


@functools.lru_cache(maxsize=2)
def _sent(trace: Trace) -> tuple[bytes, str]:
    """What the worker needs of a trace, as a file, and its SHA-256."""
    blob = trace.without_acc().to_bytes()
    return blob, hashlib.sha256(blob).hexdigest()


def _report(machine: Machine, trace: Trace) -> ErrorReport | None:
    """The error of the trace's results, by the worker; None without results, and until it is there."""
    if not _has_results(trace):
        st.caption("The file holds no output, so its error is not known.")
        return None
    store = machine.store
    if store is None or not machine.has_worker:
        st.caption("The error of the file's output is computed once a worker process runs here.")
        return None
    direction = "forward" if trace.d_query is None else "backward"
    every_score = trace.problem.with_(mask="full")  # the oracle computes what the mask hides too
    flops = sampled_share(trace) * attention_flops(every_score, direction)
    blob, digest = _sent(trace)
    seconds = flops / ORACLE_FLOPS[machine.backend]
    job = asked_job(store, JudgeRequest(digest), seconds, "Compute its error", blob=blob)
    return result_of(store, job, "judge") if job else None
