"""Runs for the pages: one worker for the server, results that all sessions share, and the recordings."""

import collections
import functools
import math
import threading
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import streamlit as st

from kernels.algorithms import algorithm_of
from kernels.check.subject.user_kernel import name_user_kernels
from kernels.device.backend import triton_missing
from kernels.oracle.report import ErrorReport
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.recordings import recorded_run
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm
from kernels.traffic.modelled import WholeTraffic, whole_traffic
from kernels.worker.client import Job, WorkerClient
from kernels.worker.requests import Request, Result, TracedRun
from viz.shared.options import named_kernels
from viz.shared.provenance import runner_words, version_words

REMEMBERED = 48


@dataclass(frozen=True, eq=False)
class Run:
    """A trace to show, its error report, and where it is from."""

    trace: Trace
    report: ErrorReport
    recorded: bool
    seconds: float | None = None
    meanwhile: bool = False
    """Whether it stands in for a run that is still to come, of the problem in the controls and the URL."""

    @property
    def algorithm(self) -> Algorithm:
        return algorithm_of(self.trace)

    @property
    def origin(self) -> str:
        """Which of the four words is right for what it found out: "recorded" or "measured"."""
        return "recorded" if self.recorded else "measured"

    @property
    def traffic(self) -> WholeTraffic:
        """Requested bytes of the whole run by tensor: counted, or by formula if a sample was traced."""
        return whole_traffic(self.trace, self.algorithm)

    @property
    def provenance(self) -> str:
        """Where and by what it was run, in words."""
        device = self.trace.device
        if self.recorded:
            version = version_words(self.algorithm, device)
            return f"recorded on {device.name}, {version}, {self.trace.recorded_at[:10]}"
        on_gpu = f" on {device.name}" if device.backend == "cuda" else ""
        return f"run here{on_gpu} {runner_words(self.algorithm, device)}"


class RunStore:
    """Jobs by their requests: two sessions that ask for the same share one job and its result."""

    def __init__(self, client: WorkerClient) -> None:
        self.client = client
        self._jobs: collections.OrderedDict[Request, Job] = collections.OrderedDict()
        self._holders: dict[Request, set[str]] = {}  # of jobs that run for holders alone
        self._lock = threading.Lock()

    def peek(self, request: Request[Result]) -> Job[Result] | None:
        """The job of a request that somebody has made already. One that is looked at counts as new."""
        with self._lock:
            if request in self._jobs:
                self._jobs.move_to_end(request)
            return self._jobs.get(request)

    def job(self, request: Request[Result], holder: str = "") -> Job[Result]:
        """The job of a request, a new one if nobody has made it.

        A new job for a holder is for its holders alone: `let_go` cancels it once none of them holds it.
        """
        with self._lock:
            if not holder:
                self._holders.pop(request, None)
            elif request not in self._jobs:
                self._holders[request] = {holder}
            elif request in self._holders:
                self._holders[request].add(holder)
            if request not in self._jobs:
                self._jobs[request] = self.client.submit(request)
            self._jobs.move_to_end(request)
            while len(self._jobs) > REMEMBERED and next(iter(self._jobs.values())).done:
                self._jobs.popitem(last=False)
            return self._jobs[request]

    def let_go(self, holder: str, but: Collection[Request] = ()) -> None:
        """Cancel what waits in the queue for a holder alone, but these."""
        with self._lock:
            held = [request for request, holders in self._holders.items() if holder in holders]
            for request in (each for each in held if each not in but):
                self._holders[request].remove(holder)
                if self._holders[request]:
                    continue
                del self._holders[request]
                job = self._jobs.get(request)
                if job is not None and not job.done and job.withdraw():
                    del self._jobs[request]

    def start(self, requests: Iterable[Request]) -> None:
        """Make the jobs of requests; for the callback of a button."""
        for request in requests:
            self.job(request)

    def forget(self, *jobs: Job) -> None:
        """Let the next requests for these start again, after a failure."""
        with self._lock:
            for request in [request for request, own in self._jobs.items() if own in jobs]:
                del self._jobs[request]


@st.cache_resource(show_spinner=False)
def run_store() -> RunStore | None:
    """The store and its worker, with the kernels of the command line; None if triton is missing."""
    if triton_missing():
        return None
    try:
        kernels = named_kernels()
    except InvalidProblem:
        kernels = []  # the Check page says what is wrong with the name
    name_user_kernels(kernels)
    return RunStore(WorkerClient(kernels=[kernel.argument for kernel in kernels]))


def session_name() -> str:
    return st.session_state.setdefault("session_name", uuid.uuid4().hex)


def backend(store: RunStore | None) -> str:
    """ "cuda", "interpreter", "starting" until the worker has said, or "replay" without a worker."""
    if store is None or store.client.start_failure:
        return "replay"
    return store.client.device.backend if store.client.device else "starting"


def recorded(problem: AttentionProblem, algorithm: str) -> Run | None:
    """The shipped recording of exactly this problem."""
    recording = recorded_run(problem, algorithm)
    return Run(recording.trace, recording.report, recorded=True) if recording else None


@functools.lru_cache(maxsize=REMEMBERED)
def live_run(traced: TracedRun) -> Run:
    return Run(traced.trace, traced.report, recorded=False, seconds=traced.seconds)


def estimated_seconds(
    problem: AttentionProblem, algorithm: Algorithm, backend_name: str, steps: int | None = None
) -> float:
    """Rough time of a traced run, or of so many of its tile steps, to decide whether it waits for a button.

    All but "cuda" counts as the interpreter: a worker that is "starting" is at least as fast as that.
    Fitted on two cores of an AMD EPYC, and on an H200. A GPU is so fast that the inputs of a whole run count
    too: the CPU draws them, and float64 judges them.
    """
    elements = math.prod(problem.q_shape) + 2 * math.prod(problem.kv_shape)
    inputs = 0.0 if steps is not None else 1.8e-8 * elements
    steps = algorithm.steps(problem) if steps is None else steps
    if backend_name == "cuda":
        return 0.5 + 2e-5 * steps + inputs
    rows = problem.block_m
    per_step = 2.2e-3 + 1.3e-7 * rows * problem.block_n + 4e-8 * rows * problem.head_dim
    return steps * per_step * algorithm.step_cost
