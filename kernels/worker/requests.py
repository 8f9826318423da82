"""The jobs of the worker: one class each. Its instances are also the keys under which results are shared.

A request and its answer travel as the plain values of dataclasses, and as arrays. The worker carries out a
request (`run`), which alone imports torch and triton.
"""

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from kernels.device.interpreter import watch_programs
from kernels.lessons.gradients import GradientLesson
from kernels.measure.measurement import Measurement
from kernels.measure.roofline import Ceiling
from kernels.oracle.report import ErrorReport
from kernels.problem import AttentionProblem
from kernels.trace import Trace
from kernels.trace.lanes import Lanes
from kernels.trace.ranks import RanksTrace
from kernels.trace.sample import Sample

Progress = Callable[[float, str], None]
"""Called with the share of the job that is done, and with what is being done."""
Result = TypeVar("Result")

PROGRESS_EVERY_S = 0.1
REQUESTS: "dict[str, type[Request]]" = {}
"""Every class of jobs that was imported, by its name."""


class Request(ABC, Generic[Result]):
    """A job for the worker. Subclasses are frozen dataclasses: equal requests are one job."""

    name: ClassVar[str]
    """What its messages carry: the name of the class in lower case, without "request"."""
    patient: ClassVar[bool] = False
    """Whether requests that are not patient go before it in the queue."""
    answers: ClassVar[Any] = None
    """Type of its answer, whose parts are plain values, bytes, arrays, or dataclasses of such."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.name = cls.__name__.lower().removesuffix("request")
        REQUESTS[cls.name] = cls

    @property
    def runs_user_code(self) -> bool:
        """Whether the worker leaves it to its host."""
        return False

    @abstractmethod
    def run(self, progress: Progress) -> Result:
        """Carry it out, in the worker."""


@dataclass(frozen=True, eq=False)
class TracedRun:
    """A trace without accumulators, how far its results are from float64, and how long the run took."""

    trace: Trace
    report: ErrorReport
    seconds: float


@dataclass(frozen=True)
class TracedRequest(Request[TracedRun]):
    """Trace a run, and judge its results."""

    answers = TracedRun

    @abstractmethod
    def trace(self) -> Trace:
        """Run the kernels once, in the worker."""

    def run(self, progress: Progress) -> TracedRun:
        from kernels.oracle.rule import judge_trace

        progress(0.0, "running the kernel")
        began = time.perf_counter()
        with report_programs(progress):
            trace = self.trace()
        seconds = time.perf_counter() - began
        progress(1.0, "comparing with float64")
        return TracedRun(trace.without_acc(), judge_trace(trace), seconds)


@dataclass(frozen=True)
class TraceRequest(TracedRequest):
    """Run one algorithm with TRACE on, or a sample of it."""

    problem: AttentionProblem
    algorithm: str
    sample: Sample | None = None
    row: int | None = None
    """Offset in the query tiles of the row whose numbers are recorded, if the tiles are large."""

    def trace(self) -> Trace:
        from kernels.algorithms import run_traced

        return run_traced(self.problem, self.algorithm, self.sample, self.row)


@dataclass(frozen=True)
class MeasureRequest(Request[Measurement]):
    """Time and memory of peers on one problem; its fields go to `kernels.measure.measure.measure`."""

    answers = Measurement
    patient = True  # a reader sees the run first, and its times after it
    problem: AttentionProblem
    directions: tuple[str, ...] = ("forward",)
    peers: tuple[str, ...] | None = None
    budget_s: float | None = None
    energy: bool = False

    @property
    def runs_user_code(self) -> bool:
        return any(peer.startswith("user") for peer in self.peers or ())

    def run(self, progress: Progress) -> Measurement:
        from kernels.measure.measure import measure
        from kernels.measure.peers import PEERS

        def next_peer(name: str) -> None:
            progress(0.0, f"measuring {PEERS[name].label}" if name in PEERS else name)

        return measure(self.problem, self.peers, self.directions, next_peer, self.budget_s, self.energy)


@dataclass(frozen=True)
class CeilingsRequest(Request[tuple[Ceiling, ...]]):
    """Copy bandwidth and matrix products of the worker's device."""

    answers = tuple[Ceiling, ...]

    def run(self, progress: Progress) -> tuple[Ceiling, ...]:
        from kernels.measure.roofline import measure_ceilings

        return measure_ceilings(lambda label: progress(0.0, f"measuring {label}"))


@dataclass(frozen=True)
class LanesRequest(Request[Lanes]):
    """What the warps of a kernel did and when; `kernel` is the name of a LaneKernel."""

    answers = Lanes
    problem: AttentionProblem
    kernel: str

    def run(self, progress: Progress) -> Lanes:
        from kernels.algorithms import run_lanes

        progress(0.0, "running the kernel with marks")
        return run_lanes(self.problem, self.kernel)


@dataclass(frozen=True)
class RanksRequest(Request[tuple[RanksTrace, ...]]):
    """Attention over so many ranks of this machine, in one way after the other."""

    answers = tuple[RanksTrace, ...]
    problem: AttentionProblem
    ranks: int
    ways: tuple[tuple[str, str], ...]
    """Methods and layouts of `context_parallel_attention`."""
    direction: str

    def run(self, progress: Progress) -> tuple[RanksTrace, ...]:
        from kernels.attention.context_parallel.processes import traced_on_ranks
        from kernels.attention.context_parallel.run import RunOrder

        traces: list[RanksTrace] = []
        for method, layout in self.ways:

            def so_far(share: float) -> None:
                progress((len(traces) + share) / len(self.ways), "the ranks compute")

            order = RunOrder(self.problem, method, layout, self.direction)
            traces.append(traced_on_ranks(order, self.ranks, progress=so_far))
        return tuple(traces)


@dataclass(frozen=True, eq=False)
class LessonGradients:
    """Derivatives of a GradientLesson by name."""

    autograd: dict[str, np.ndarray]
    """By torch's autograd in float64."""
    kernel: dict[str, np.ndarray]
    """By this project's kernels in float32."""
    torch: str


@dataclass(frozen=True)
class LessonGradientsRequest(Request[LessonGradients]):
    answers = LessonGradients
    lesson: GradientLesson

    def run(self, progress: Progress) -> LessonGradients:
        import torch

        from kernels.lessons.autograd import autograd_gradients, kernel_gradients

        progress(0.0, "differentiating")
        autograd, kernel = (
            {name: tensor.numpy(force=True) for name, tensor in gradients(self.lesson).items()}
            for gradients in (autograd_gradients, kernel_gradients)
        )
        return LessonGradients(autograd, kernel, str(torch.__version__))


def report_programs(progress: Progress) -> contextlib.AbstractContextManager[None]:
    """Report the share of programs that Triton's interpreter has started; nothing on CUDA."""
    from kernels.device.runtime import INTERPRETED

    said = [time.monotonic()]

    def report(share: float) -> None:
        if time.monotonic() - said[0] > PROGRESS_EVERY_S:
            said[0] = time.monotonic()
            progress(share, "running the kernel in the interpreter")

    return watch_programs(report, INTERPRETED)
