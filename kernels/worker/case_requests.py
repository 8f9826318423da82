"""Jobs of the worker about the case of a check: verdict, sensitivity, bits, and what its kernel moves."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from kernels.check.cases import CheckCase
from kernels.check.error_maps import maps_from_bytes, maps_to_bytes
from kernels.check.result import CheckResult, Sensitivity
from kernels.check.variations import Determinism
from kernels.oracle.report import ErrorReport
from kernels.trace import Trace
from kernels.worker.requests import Answer, Progress, Request, Result, TracedRun, report_programs

if TYPE_CHECKING:
    from kernels.check.uploads import Upload


@dataclass(frozen=True)
class CaseRequest(Request[Result]):
    """A job about one case. The file that the case names by its digest is sent with the request."""

    case: CheckCase
    kernel_version: str = ""
    """Tells two versions of the user's own kernel apart."""

    @classmethod
    def from_dict(cls, values: dict) -> CaseRequest:
        """The reverse of `as_dict`."""
        return cls(CheckCase.from_dict(values["case"]), values["kernel_version"])

    def upload(self, blob: bytes) -> Upload | None:
        """The user's file, if the case is about one. Raises InvalidUpload."""
        from kernels.check.uploads import read_upload

        return read_upload(blob, self.case.axes) if self.case.upload else None


@dataclass(frozen=True)
class CheckRequest(CaseRequest[CheckResult]):
    """Is the result of a case right?"""

    name = "check"

    def run(self, blob: bytes, progress: Progress) -> Answer:
        """The bytes are the error maps."""
        from kernels.check.run import run_check

        result = run_check(self.case, self.upload(blob), progress, compiles=True)
        return {"check": result.as_dict()}, maps_to_bytes(result.maps)

    def result(self, answer: dict, blob: bytes) -> CheckResult:
        """The verdict, with its maps."""
        return CheckResult.from_dict(answer["check"], maps_from_bytes(blob))


@dataclass(frozen=True)
class SensitivityRequest(CaseRequest[Sensitivity]):
    """How the error of a case moves with its tiles and with the scale of its input."""

    name = "sensitivity"

    def run(self, blob: bytes, progress: Progress) -> Answer:
        """The answer has no bytes."""
        from kernels.check.sensitivity import run_sensitivity

        found = run_sensitivity(self.case, self.upload(blob), progress)
        return {"sensitivity": found.as_dict()}, b""

    def result(self, answer: dict, blob: bytes) -> Sensitivity:
        """The variations."""
        return Sensitivity.from_dict(answer["sensitivity"])


@dataclass(frozen=True)
class PlayRequest(CaseRequest[TracedRun]):
    """Run the user's own kernel once in the interpreter, and watch what it loads and stores."""

    name = "play"

    def run(self, blob: bytes, progress: Progress) -> Answer:
        """The bytes are the trace file."""
        from kernels.check.played import play_user_kernel
        from kernels.oracle.rule import judge_trace

        progress(0.0, "running your kernel")
        began = time.perf_counter()
        with report_programs(progress):
            trace = play_user_kernel(self.case)
        seconds = time.perf_counter() - began
        progress(1.0, "comparing with float64")
        return {"report": asdict(judge_trace(trace)), "seconds": seconds}, trace.to_bytes()

    def result(self, answer: dict, blob: bytes) -> TracedRun:
        """The trace as it was seen."""
        return TracedRun(Trace.load(blob), ErrorReport(**answer["report"]), answer["seconds"])


@dataclass(frozen=True)
class DeterminismRequest(CaseRequest[Determinism]):
    """Does a case give the same bits again, in other batches and at other places?"""

    name = "determinism"

    def run(self, blob: bytes, progress: Progress) -> Answer:
        """The answer has no bytes."""
        from kernels.check.determinism import run_determinism

        found = run_determinism(self.case, self.upload(blob), progress)
        return {"determinism": found.as_dict()}, b""

    def result(self, answer: dict, blob: bytes) -> Determinism:
        """The variations."""
        return Determinism.from_dict(answer["determinism"])
