"""The jobs of the worker: one class each. Its instances are also the keys under which results are shared.

A request is sent as plain values (`as_dict`). The worker carries it out (`run`), and the client reads the
answer (`result`). Only `run` imports torch and triton.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import ClassVar, Generic, TypeVar

from kernels.device.interpreter import watch_programs
from kernels.lessons.gradients import GradientLesson
from kernels.measure.ceilings import Ceiling
from kernels.measure.measurement import Measurement
from kernels.oracle.report import ErrorReport
from kernels.problem import AttentionProblem
from kernels.trace import Trace
from kernels.trace.lanes import Lanes
from kernels.trace.sample import Sample
from kernels.traffic.operations import Operation

Progress = Callable[[float, str], None]
"""Called with the share of the job that is done, and with what is being done."""
Answer = tuple[dict, bytes]
"""Plain values for JSON, and bytes."""
Result = TypeVar("Result")

PROGRESS_EVERY_S = 0.1


class Request(ABC, Generic[Result]):
    """A job for the worker. Subclasses are frozen dataclasses: equal requests are one job."""

    name: ClassVar[str]
    patient: ClassVar[bool] = False
    """Whether requests that are not patient go before it in the queue."""

    def as_dict(self) -> dict:
        """Field names to plain values, fit for JSON."""
        return asdict(self)  # type: ignore[call-overload]  # every subclass is a dataclass

    @classmethod
    @abstractmethod
    def from_dict(cls, values: dict) -> Request:
        """The reverse of `as_dict`. Raises InvalidProblem."""

    @abstractmethod
    def run(self, blob: bytes, progress: Progress) -> Answer:
        """Carry it out, in the worker; `blob` is what was sent with it."""

    @abstractmethod
    def result(self, answer: dict, blob: bytes) -> Result:
        """The result that an answer holds."""


@dataclass(frozen=True, eq=False)
class TracedRun:
    """A trace, how far its results are from float64, and how long the traced run took."""

    trace: Trace
    report: ErrorReport
    seconds: float


@dataclass(frozen=True)
class TraceRequest(Request[TracedRun]):
    """Run one algorithm with TRACE on, or a sample of it, and judge its results."""

    name = "trace"
    problem: AttentionProblem
    algorithm: str
    sample: Sample | None = None
    row: int | None = None
    """Offset in the query tiles of the row whose numbers are recorded, if the tiles are large."""

    @classmethod
    def from_dict(cls, values: dict) -> TraceRequest:
        """The reverse of `as_dict`."""
        sample = Sample.from_dict(values["sample"]) if values.get("sample") else None
        problem = AttentionProblem.from_dict(values["problem"])
        return cls(problem, values["algorithm"], sample, values.get("row"))

    def run(self, blob: bytes, progress: Progress) -> Answer:
        """The bytes are the trace file, without accumulators."""
        from kernels.algorithms import run_traced
        from kernels.oracle.rule import judge_trace

        progress(0.0, "running the kernel")
        began = time.perf_counter()
        with report_programs(progress):
            trace = run_traced(self.problem, self.algorithm, self.sample, self.row)
        seconds = time.perf_counter() - began
        progress(1.0, "comparing with float64")
        return {"report": asdict(judge_trace(trace)), "seconds": seconds}, trace.without_acc().to_bytes()

    def result(self, answer: dict, blob: bytes) -> TracedRun:
        """The trace as it was run."""
        return TracedRun(Trace.load(blob), ErrorReport(**answer["report"]), answer["seconds"])


@dataclass(frozen=True)
class JudgeRequest(Request[ErrorReport]):
    """How far the results of a trace are from float64; its file is sent with the request."""

    name = "judge"
    digest: str
    """SHA-256 of the file: tells two files apart."""

    @classmethod
    def from_dict(cls, values: dict) -> JudgeRequest:
        """The reverse of `as_dict`."""
        return cls(**values)

    def run(self, blob: bytes, progress: Progress) -> Answer:
        """The answer has no bytes."""
        from kernels.oracle.rule import judge_trace

        progress(0.0, "comparing with float64")
        return {"report": asdict(judge_trace(Trace.load(blob)))}, b""

    def result(self, answer: dict, blob: bytes) -> ErrorReport:
        """The report."""
        return ErrorReport(**answer["report"])


@dataclass(frozen=True)
class MeasureRequest(Request[Measurement]):
    """Time and memory of peers on one problem; its fields go to `kernels.measure.measure.measure`."""

    name = "measure"
    patient = True  # a reader sees the run first, and its times after it
    problem: AttentionProblem
    directions: tuple[str, ...] = ("forward",)
    peers: tuple[str, ...] | None = None
    budget_s: float | None = None
    kernel_version: str = ""
    """Tells two versions of the user's own kernel apart, if it is among the peers."""

    @classmethod
    def from_dict(cls, values: dict) -> MeasureRequest:
        """The reverse of `as_dict`."""
        changed = {
            "problem": AttentionProblem.from_dict(values["problem"]),
            "directions": tuple(values["directions"]),
            "peers": None if values["peers"] is None else tuple(values["peers"]),
        }
        return cls(**values | changed)

    def run(self, blob: bytes, progress: Progress) -> Answer:
        """The answer has no bytes."""
        from kernels.measure.measure import measure
        from kernels.measure.peers import PEERS

        def next_peer(name: str) -> None:
            progress(0.0, f"measuring {PEERS[name].label}" if name in PEERS else name)

        measurement = measure(self.problem, self.peers, self.directions, next_peer, self.budget_s)
        return {"measurement": measurement.as_dict()}, b""

    def result(self, answer: dict, blob: bytes) -> Measurement:
        """The measurement."""
        return Measurement.from_dict(answer["measurement"])


@dataclass(frozen=True)
class CeilingsRequest(Request[tuple[Ceiling, ...]]):
    """Copy bandwidth and matrix products of the worker's device."""

    name = "ceilings"

    @classmethod
    def from_dict(cls, values: dict) -> CeilingsRequest:
        """The reverse of `as_dict`."""
        return cls(**values)

    def run(self, blob: bytes, progress: Progress) -> Answer:
        """The answer has no bytes."""
        from kernels.measure.ceilings import measure_ceilings

        ceilings = measure_ceilings(lambda label: progress(0.0, f"measuring {label}"))
        return {"ceilings": [ceiling.as_dict() for ceiling in ceilings]}, b""

    def result(self, answer: dict, blob: bytes) -> tuple[Ceiling, ...]:
        """The ceilings."""
        return tuple(Ceiling.from_dict(values) for values in answer["ceilings"])


@dataclass(frozen=True)
class OperationsRequest(Request[tuple[Operation, ...]]):
    """Bytes of each operation of naive attention, counted from its tensors."""

    name = "operations"
    problem: AttentionProblem
    direction: str

    @classmethod
    def from_dict(cls, values: dict) -> OperationsRequest:
        """The reverse of `as_dict`."""
        return cls(AttentionProblem.from_dict(values["problem"]), values["direction"])

    def run(self, blob: bytes, progress: Progress) -> Answer:
        """The answer has no bytes."""
        from kernels.traffic.operations import count_operations

        operations = count_operations(self.problem, self.direction)
        return {"operations": [asdict(operation) for operation in operations]}, b""

    def result(self, answer: dict, blob: bytes) -> tuple[Operation, ...]:
        """The operations, in the order in which they ran."""
        return tuple(Operation(**values) for values in answer["operations"])


@dataclass(frozen=True)
class LanesRequest(Request[Lanes]):
    """What the warps of a kernel did and when; `kernel` is the name of a LaneKernel."""

    name = "lanes"
    problem: AttentionProblem
    kernel: str

    @classmethod
    def from_dict(cls, values: dict) -> LanesRequest:
        """The reverse of `as_dict`."""
        return cls(AttentionProblem.from_dict(values["problem"]), values["kernel"])

    def run(self, blob: bytes, progress: Progress) -> Answer:
        """The bytes are the file of the lanes."""
        from kernels.algorithms import run_lanes

        progress(0.0, "running the kernel with marks")
        return {}, run_lanes(self.problem, self.kernel).to_bytes()

    def result(self, answer: dict, blob: bytes) -> Lanes:
        """The lanes."""
        return Lanes.load(blob)


@dataclass(frozen=True)
class LessonGradients:
    """Derivatives of a GradientLesson by name, as nested lists."""

    autograd: dict[str, list]
    """By torch's autograd in float64."""
    kernel: dict[str, list]
    """By this project's kernels in float32."""
    torch: str
    """Version of torch."""


@dataclass(frozen=True)
class LessonGradientsRequest(Request[LessonGradients]):
    """The derivatives of a small layer, by torch and by our kernels."""

    name = "lesson_gradients"
    lesson: GradientLesson

    @classmethod
    def from_dict(cls, values: dict) -> LessonGradientsRequest:
        """The reverse of `as_dict`."""
        return cls(GradientLesson.from_dict(values["lesson"]))

    def run(self, blob: bytes, progress: Progress) -> Answer:
        """The answer has no bytes."""
        import torch

        from kernels.lessons.autograd import autograd_gradients, kernel_gradients

        def plain(gradients: dict[str, torch.Tensor]) -> dict[str, list]:
            return {name: tensor.tolist() for name, tensor in gradients.items()}

        progress(0.0, "differentiating")
        by_torch, by_kernel = autograd_gradients(self.lesson), kernel_gradients(self.lesson)
        return {"autograd": plain(by_torch), "kernel": plain(by_kernel), "torch": torch.__version__}, b""

    def result(self, answer: dict, blob: bytes) -> LessonGradients:
        """The derivatives."""
        return LessonGradients(answer["autograd"], answer["kernel"], answer["torch"])


def report_programs(progress: Progress) -> contextlib.AbstractContextManager[None]:
    """Report the share of programs that Triton's interpreter has started; nothing on CUDA."""
    from kernels.device.runtime import INTERPRETED

    said = [time.monotonic()]

    def report(share: float) -> None:
        if time.monotonic() - said[0] > PROGRESS_EVERY_S:
            said[0] = time.monotonic()
            progress(share, "running the kernel in the interpreter")

    return watch_programs(report, INTERPRETED)
