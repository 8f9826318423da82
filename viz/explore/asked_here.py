"""What else Explore asks the worker for: lanes, time and memory, one row of a large tile."""

import functools
import math

import streamlit as st

from kernels.algorithms import kernels_with_lanes
from kernels.measure.measure import naive_peak_bytes
from kernels.measure.measurement import Measurement
from kernels.recordings import recorded_measurement
from kernels.trace import Trace
from kernels.trace.lanes import Lanes
from kernels.traffic.modelled import forward_flops
from kernels.worker.requests import LanesRequest, MeasureRequest, TraceRequest
from viz.explore.choice import WHOLE_S, Machine, duration
from viz.player.lanes import LanesRun, fastest_first, recorded_lane_runs
from viz.player.places import is_written
from viz.shared import runs
from viz.shared.waiting import asked_job, result_of, results_of
from viz.shared.words import Words

WORDS = Words(__file__)


LONG_ON_A_CPU_BYTES, LONG_ON_A_CPU_FLOPS = 2e9, 1e11
"""Standard attention beyond either is measured on a CPU only after a click: it runs seven times."""
PICKED = "picked_row"
"""Key in the session of the row that the page has seen in the URL."""


def lanes_of(machine: Machine, run: runs.Run) -> tuple[LanesRun, ...]:
    """Lanes of the run's algorithm and others, recorded or measured here; none without its own."""
    own = run.algorithm.lanes
    if own is None:
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
    own = run.trace.problem
    problem = own if machine.backend == "cuda" else own.with_(dtype="float32")  # a CPU emulates 16 bits
    flops = forward_flops(problem.with_(mask="full"))  # standard attention computes what the mask hides too
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
    return machine.backend != "replay" and not run.meanwhile and run.algorithm.traces_a_row


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
