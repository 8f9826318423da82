"""Runs for the pages: one worker for the whole server, results shared by all sessions, recordings where there is no worker."""

from __future__ import annotations

import collections
import functools
import threading
from dataclasses import dataclass

import streamlit as st

from kernels.algorithms import algorithm_of
from kernels.check.cases import CheckCase
from kernels.device.backend import triton_missing
from kernels.lessons.gradients import GradientLesson
from kernels.measure.measurement import Measurement
from kernels.oracle.report import ErrorReport
from kernels.problem import AttentionProblem
from kernels.recordings import recorded_measurement, recorded_run
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm
from kernels.worker.client import Job, WorkerClient
from viz.shared.options import kernel_argument

REMEMBERED = 48
IMMEDIATE_S = 8.0
"""Work that is estimated to take longer waits for the Run button."""


@dataclass(frozen=True, eq=False)
class Run:
    """A trace to show, its error report, and where it is from."""

    trace: Trace
    report: ErrorReport
    recorded: bool
    seconds: float | None = None

    @property
    def algorithm(self) -> Algorithm:
        """The entry of the trace's algorithm."""
        return algorithm_of(self.trace)

    @property
    def provenance(self) -> str:
        """Where and by what it was run, in words."""
        device = self.trace.device
        if self.recorded:
            return f"recorded on {device.name}, Triton {device.triton}, {self.trace.recorded_at[:10]}"
        if device.backend == "cuda":
            return f"run here on {device.name}, Triton {device.triton}"
        return f"run here by Triton {device.triton}'s interpreter"


class RunStore:
    """Jobs by what they compute, so that two sessions that ask the same share one job and its result."""

    def __init__(self, client: WorkerClient) -> None:
        self.client = client
        self._jobs: collections.OrderedDict[tuple, Job] = collections.OrderedDict()
        self._lock = threading.Lock()

    def peek(self, kind: str, problem: AttentionProblem, algorithm: str = "") -> Job | None:
        """The job if somebody asked for it already."""
        return self._jobs.get((kind, problem, algorithm))

    def trace(self, problem: AttentionProblem, algorithm: str) -> Job:
        """One algorithm with TRACE on, judged against float64."""
        return self._job("trace", problem, algorithm, {"algorithm": algorithm})

    def measurement(self, problem: AttentionProblem, direction: str = "forward") -> Job:
        """Time and memory of all peers."""
        return self._job("measure", problem, direction, {"directions": [direction]})

    def lesson_gradients(self, lesson: GradientLesson) -> Job:
        """Derivatives of a small problem by torch; see `kernels.worker.server.lesson_gradients_job`."""
        return self._job("lesson_gradients", lesson, "", {})

    def check(self, case: CheckCase, part: str = "case", file: bytes = b"", kernel_version: str = "") -> Job:
        """The check of a case, or with part "sensitivity" how it moves; `file` is the upload that the case names by its digest."""
        return self._job("check", case, part + kernel_version, {"part": part, "blob": file})

    def measure_point(
        self, problem: AttentionProblem, peers: tuple[str, ...], directions: tuple[str, ...], budget_s: float
    ) -> Job:
        """One point of a sweep: the named peers in the named directions."""
        parameters = {"peers": list(peers), "directions": list(directions), "budget_s": budget_s}
        return self._job("measure", problem, f"{','.join(peers)} {','.join(directions)}", parameters)

    def ceilings(self) -> Job:
        """Copy bandwidth and matrix products of the device at hand."""
        return self._job("ceilings", AttentionProblem(), "", {})

    def operations(self, problem: AttentionProblem, direction: str) -> Job:
        """Bytes of naive attention, counted operation by operation."""
        return self._job("operations", problem, direction, {"direction": direction})

    def measure_beside(self, problem: AttentionProblem, peers: tuple[str, ...], kernel_version: str) -> Job:
        """Time and memory of these peers, the user's kernel among them, on one problem."""
        return self._job("measure", problem, kernel_version, {"peers": list(peers)})

    def forget(self, job: Job) -> None:
        """Let the next request start anew, after a failure."""
        with self._lock:
            for key in [key for key, value in self._jobs.items() if value is job]:
                del self._jobs[key]

    def _job(
        self, kind: str, problem: AttentionProblem | GradientLesson, algorithm: str, parameters: dict
    ) -> Job:
        key = (kind, problem, algorithm)
        with self._lock:
            if key not in self._jobs:
                self._jobs[key] = self.client.submit(kind, problem=problem.as_dict(), **parameters)
            self._jobs.move_to_end(key)
            while len(self._jobs) > REMEMBERED and next(iter(self._jobs.values())).done:
                self._jobs.popitem(last=False)
            return self._jobs[key]


@st.cache_resource(show_spinner=False)
def run_store() -> RunStore | None:
    """The store and its worker, started at the first page; None where triton is missing."""
    return None if triton_missing() else RunStore(WorkerClient(kernel=kernel_argument()))


def backend(store: RunStore | None) -> str:
    """ "cuda", "interpreter", "starting" while the worker has not said, or "replay" without one."""
    if store is None or store.client.start_failure:
        return "replay"
    return store.client.device.backend if store.client.device else "starting"


def recorded(problem: AttentionProblem, algorithm: str) -> Run | None:
    """The shipped recording of exactly this problem."""
    recording = recorded_run(problem, algorithm)
    return Run(recording.trace, recording.report, recorded=True) if recording else None


@functools.lru_cache(maxsize=REMEMBERED)
def finished_run(job: Job) -> Run:
    """The result of a trace job that has ended. Raises what the job raises."""
    answer, blob = job.result(0)
    return Run(Trace.load(blob), ErrorReport(**answer["report"]), recorded=False, seconds=answer["seconds"])


def measured_problem(problem: AttentionProblem, backend_name: str) -> AttentionProblem:
    """What is timed: the problem itself on CUDA; in float32 on a CPU, whose float16 and bfloat16 products are emulated."""
    return problem if backend_name == "cuda" else problem.with_(dtype="float32")


def finished_measurement(job: Job) -> Measurement:
    """The result of a measure job that has ended. Raises what the job raises."""
    return Measurement.from_dict(job.result(0)[0]["measurement"])


def recorded_measure(problem: AttentionProblem) -> Measurement | None:
    """Shipped time and memory of exactly this problem."""
    return recorded_measurement(problem)


def estimated_seconds(problem: AttentionProblem, algorithm: Algorithm, backend_name: str) -> float:
    """Rough time of a traced run, to decide whether it waits for the Run button.

    Fitted on two cores of an AMD EPYC, and on an H200.
    """
    steps = algorithm.steps(problem)
    if backend_name == "cuda":
        return 0.5 + 2e-5 * steps
    rows = problem.block_m
    per_step = 2.2e-3 + 1.3e-7 * rows * problem.block_n + 4e-8 * rows * problem.head_dim
    return steps * per_step * algorithm.step_cost
