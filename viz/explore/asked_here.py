"""What else Explore asks the worker for: lanes, time and memory, one row of a large tile, a file's error.

The file is a saved trace that the user opens, from the sidebar or by `--trace file.npz` on the command line.
"""

import functools
import hashlib
import math
from pathlib import Path

import streamlit as st

from kernels.algorithms import kernels_with_lanes
from kernels.check.files.trace_file import MAX_FILE_BYTES, read_trace
from kernels.check.files.uploads import InvalidUpload
from kernels.measure.measure import naive_peak_bytes
from kernels.measure.measurement import Measurement
from kernels.oracle.report import ErrorReport
from kernels.recordings import recorded_measurement
from kernels.trace import Trace
from kernels.trace.lanes import Lanes
from kernels.traffic.modelled import attention_flops, forward_flops
from kernels.worker.requests import JudgeRequest, LanesRequest, MeasureRequest, TraceRequest
from viz.explore.choice import WHOLE_S, Machine, duration
from viz.player.data import sampled_share
from viz.player.lanes import LanesRun, fastest_first, recorded_lane_runs
from viz.player.places import is_written
from viz.shared import runs
from viz.shared.formats import plain
from viz.shared.options import named_file
from viz.shared.waiting import asked_job, result_of, results_of
from viz.shared.words import Words

ORACLE_FLOPS = {"cuda": 2e11, "interpreter": 4e9}
"""Operations per second of the float64 oracle and its references; a rough, low guess."""
WORDS = Words(__file__)
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
    return runs.Run(trace, _report(machine, trace), recorded=True, file=name)


def _opened() -> tuple[bytes, str]:
    """The file that was dropped in the sidebar, or that of the command line; its name is "" for none."""
    with st.sidebar.expander("Open a saved trace (.npz)"):
        label = "A trace that Explore or `Trace.save` wrote"
        file = st.file_uploader(label, ["npz"], help=WORDS("file"))
    if file is not None:
        return file.getvalue(), file.name
    path = named_file("--trace")
    if path is None or st.session_state.get(CLOSED):
        return b"", ""
    icon, close = ":material/close:", functools.partial(st.session_state.update, {CLOSED: True})
    st.sidebar.button(f"Close {path.name}", icon=icon, width="stretch", on_click=close)
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
    if trace.output is None and trace.d_query is None:
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
    return result_of(store, job, "judge")


LONG_ON_A_CPU_BYTES, LONG_ON_A_CPU_FLOPS = 2e9, 1e11
"""Naive attention beyond either is measured on a CPU only after a click: it runs seven times."""
PICKED = "picked_row"
"""Key in the session of the row that the page has seen in the URL."""


def lanes_of(machine: Machine, run: runs.Run) -> tuple[LanesRun, ...]:
    """Lanes of the run's algorithm and others, recorded or measured here; none without its own."""
    own = run.algorithm.lanes
    if run.file or own is None:
        return ()
    found = recorded_lane_runs(run.trace.problem, run.algorithm.direction)
    if machine.backend == "cuda" and not (run.recorded or run.meanwhile):
        found = _measured_lanes(machine, run) or found
    return found if any(each.kernel is own for each in found) else ()


def _measured_lanes(machine: Machine, run: runs.Run) -> tuple[LanesRun, ...]:
    store, device, problem = machine.store, machine.device, run.trace.problem
    if store is None or device is None:
        return ()
    kernels = kernels_with_lanes(run.algorithm.direction)
    able = [each for each in kernels if each.refusal(problem, device.compute_capability) is None]
    if run.algorithm.lanes not in able:
        return ()
    requests = [LanesRequest(problem, each.name) for each in able]
    jobs = {request: job for request in requests if (job := store.peek(request)) is not None}
    if len(jobs) < len(requests):
        st.button(
            "Measure the lanes of an SM here",
            icon=":material/view_timeline:",
            help=WORDS("lanes"),
            on_click=store.start,
            args=(requests,),
        )
        return ()
    return fastest_first(_lanes_run(lanes) for lanes in results_of(store, jobs, "lanes").values())


@functools.lru_cache(maxsize=runs.REMEMBERED)
def _lanes_run(lanes: Lanes) -> LanesRun:
    return LanesRun(lanes, recorded=False)


def measurement_of(machine: Machine, run: runs.Run) -> Measurement | None:
    """Time and memory of the run's problem: recorded, or measured here; None if there is none yet."""
    store = machine.store
    if run.recorded or store is None:
        return recorded_measurement(run.trace.problem)
    problem = runs.measured_problem(run.trace.problem, machine.backend)
    flops = forward_flops(problem.with_(mask="full"))  # naive attention computes what the mask hides too
    is_long = flops > LONG_ON_A_CPU_FLOPS or (
        naive_peak_bytes(problem, run.algorithm.direction) > LONG_ON_A_CPU_BYTES
    )
    request = MeasureRequest(problem, (run.algorithm.direction,))
    seconds = math.inf if is_long and machine.backend != "cuda" else 0.0
    holder = f"{runs.session_name()} measurement"
    job = asked_job(store, request, seconds, "Measure time and memory", holder=holder)
    return result_of(store, job, "measurement", wait_s=0)


def can_pick(machine: Machine, run: runs.Run) -> bool:
    """Whether the run could be run here again, with the numbers of a row."""
    return machine.backend != "replay" and run.is_of_controls and run.algorithm.has_figure


def wanted_row(trace: Trace) -> int | None:
    """Offset in the query tiles of the row that the URL opens; None if none is, or all rows are recorded."""
    row = st.query_params.get("row", "")
    has_all = trace.matrices is not None and trace.matrix_row is None
    if has_all or st.query_params.get("open") != "tile" or not is_written("row", row):
        return None
    return int(row.partition(".")[2]) % trace.problem.block_m


def with_picked_row(machine: Machine, run: runs.Run) -> runs.Run:
    """The same run with the numbers of the row that the URL opens, or `run` while they are not there."""
    st.session_state[PICKED] = row = wanted_row(run.trace)
    store, trace = machine.store, run.trace
    if store is None or row is None or machine.backend == "starting" or not can_pick(machine, run):
        return run
    seconds = runs.estimated_seconds(trace.problem, run.algorithm, machine.backend, trace.steps)
    notice = f"The numbers of this row come from a run that takes about {duration(seconds)} here."
    if seconds > WHOLE_S:
        st.info(f"{notice} That is too long: choose a shorter problem.", icon=":material/timer:")
        return run
    request = TraceRequest(trace.problem, trace.algorithm, trace.sample, row)
    job = asked_job(store, request, seconds, "Run it for the numbers of this row", notice=notice, key="row")
    traced = result_of(store, job, "row")
    return runs.live_run(traced) if traced else run


def ask_for_row(trace: Trace) -> None:
    """Draw the page again if the player has opened a row since the page was drawn."""
    if wanted_row(trace) != st.session_state.get(PICKED):
        st.rerun()
