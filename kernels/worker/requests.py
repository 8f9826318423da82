"""The jobs of the worker: one class each. Its instances are also the keys under which results are shared.

A request and its answer travel as the plain values of dataclasses. The worker carries a request out (`run`),
and the client makes a result of the answer (`result`). Only `run` imports torch and triton.
"""

import contextlib
import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

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
Answer = tuple[Any, bytes]
"""A value of the request's type `answers`, and bytes."""
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
    """Type of the plain part of its answer; None if the answer is bytes alone."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.name = cls.__name__.lower().removesuffix("request")
        REQUESTS[cls.name] = cls

    @property
    def runs_user_code(self) -> bool:
        """Whether the worker leaves it to its host."""
        return False

    @abstractmethod
    def run(self, blob: bytes, progress: Progress) -> Answer:
        """Carry it out, in the worker; `blob` is what was sent with it."""

    def result(self, answer: Any, blob: bytes) -> Result:
        """What the client makes of an answer: by default, its plain part."""
        return answer


@dataclass(frozen=True, eq=False)
class TracedRun:
    """A trace, how far its results are from float64, and how long the traced run took."""

    trace: Trace
    report: ErrorReport
    seconds: float


@dataclass(frozen=True)
class TracedRequest(Request[TracedRun]):
    """Trace a run, and judge its results."""

    answers = tuple[ErrorReport, float]

    @abstractmethod
    def trace(self) -> Trace:
        """Run the kernels once, in the worker."""

    def run(self, blob: bytes, progress: Progress) -> Answer:
        """The bytes are the trace file, without accumulators."""
        from kernels.oracle.rule import judge_trace

        progress(0.0, "running the kernel")
        began = time.perf_counter()
        with report_programs(progress):
            trace = self.trace()
        seconds = time.perf_counter() - began
        progress(1.0, "comparing with float64")
        return (judge_trace(trace), seconds), trace.without_acc().to_bytes()

    def result(self, answer: tuple[ErrorReport, float], blob: bytes) -> TracedRun:
        return TracedRun(Trace.load(blob), *answer)


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

    def run(self, blob: bytes, progress: Progress) -> Answer:
        from kernels.measure.measure import measure
        from kernels.measure.peers import PEERS

        def next_peer(name: str) -> None:
            progress(0.0, f"measuring {PEERS[name].label}" if name in PEERS else name)

        found = measure(self.problem, self.peers, self.directions, next_peer, self.budget_s, self.energy)
        return found, b""


@dataclass(frozen=True)
class CeilingsRequest(Request[tuple[Ceiling, ...]]):
    """Copy bandwidth and matrix products of the worker's device."""

    answers = tuple[Ceiling, ...]

    def run(self, blob: bytes, progress: Progress) -> Answer:
        from kernels.measure.roofline import measure_ceilings

        return measure_ceilings(lambda label: progress(0.0, f"measuring {label}")), b""


@dataclass(frozen=True)
class SdpaChoiceRequest(Request[str]):
    """Which of its kernels F.scaled_dot_product_attention picks here, by its name in SDPBackend."""

    answers = str
    problem: AttentionProblem

    def run(self, blob: bytes, progress: Progress) -> Answer:
        from kernels.measure.peers import sdpa_choice

        return sdpa_choice(self.problem), b""


@dataclass(frozen=True)
class LanesRequest(Request[Lanes]):
    """What the warps of a kernel did and when; `kernel` is the name of a LaneKernel."""

    problem: AttentionProblem
    kernel: str

    def run(self, blob: bytes, progress: Progress) -> Answer:
        """The bytes are the file of the lanes."""
        from kernels.algorithms import run_lanes

        progress(0.0, "running the kernel with marks")
        return None, run_lanes(self.problem, self.kernel).to_bytes()

    def result(self, answer: None, blob: bytes) -> Lanes:
        return Lanes.load(blob)


@dataclass(frozen=True)
class RanksRequest(Request[tuple[RanksTrace, ...]]):
    """Attention over so many ranks of this machine, in one way after the other."""

    answers = tuple[int, ...]
    problem: AttentionProblem
    ranks: int
    ways: tuple[tuple[str, str], ...]
    """Methods and layouts of `context_parallel_attention`."""
    direction: str

    def run(self, blob: bytes, progress: Progress) -> Answer:
        """The bytes are the files of the traces, the answer is their sizes."""
        from kernels.attention.context_parallel.processes import traced_on_ranks
        from kernels.attention.context_parallel.run import RunOrder

        files: list[bytes] = []
        for method, layout in self.ways:

            def so_far(share: float) -> None:
                progress((len(files) + share) / len(self.ways), "the ranks compute")

            order = RunOrder(self.problem, method, layout, self.direction)
            files.append(traced_on_ranks(order, self.ranks, progress=so_far).to_bytes())
        return tuple(map(len, files)), b"".join(files)

    def result(self, answer: tuple[int, ...], blob: bytes) -> tuple[RanksTrace, ...]:
        ends = list(itertools.accumulate(answer))
        return tuple(RanksTrace.load(blob[end - size : end]) for size, end in zip(answer, ends, strict=True))


@dataclass(frozen=True)
class LessonGradients:
    """Derivatives of a GradientLesson by name, as nested lists."""

    autograd: dict[str, list]
    """By torch's autograd in float64."""
    kernel: dict[str, list]
    """By this project's kernels in float32."""
    torch: str


@dataclass(frozen=True)
class LessonGradientsRequest(Request[LessonGradients]):
    answers = LessonGradients
    lesson: GradientLesson

    def run(self, blob: bytes, progress: Progress) -> Answer:
        import torch

        from kernels.lessons.autograd import autograd_gradients, kernel_gradients

        progress(0.0, "differentiating")
        autograd, kernel = (
            {name: tensor.tolist() for name, tensor in gradients(self.lesson).items()}
            for gradients in (autograd_gradients, kernel_gradients)
        )
        return LessonGradients(autograd, kernel, torch.__version__), b""


def report_programs(progress: Progress) -> contextlib.AbstractContextManager[None]:
    """Report the share of programs that Triton's interpreter has started; nothing on CUDA."""
    from kernels.device.runtime import INTERPRETED

    said = [time.monotonic()]

    def report(share: float) -> None:
        if time.monotonic() - said[0] > PROGRESS_EVERY_S:
            said[0] = time.monotonic()
            progress(share, "running the kernel in the interpreter")

    return watch_programs(report, INTERPRETED)
