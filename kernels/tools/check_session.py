"""One call of `python -m kernels.check`: cases in the worker, what is varied, and the reports."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from kernels.check.cases import UPLOADED, CheckCase
from kernels.check.report import Report, shell_command, to_html, to_json
from kernels.check.result import CheckResult
from kernels.check.result_lines import INDENT, result_lines, sensitivity_lines
from kernels.check.summary import ORDER
from kernels.check.user_kernel import UserKernel
from kernels.check.variations import determinism_lines
from kernels.device.backend import triton_missing
from kernels.problem import InvalidProblem
from kernels.worker.case_requests import CaseRequest, CheckRequest, DeterminismRequest, SensitivityRequest
from kernels.worker.checks import checked_result
from kernels.worker.client import START_LIMIT_S, WorkerClient
from kernels.worker.failures import FAILURES

Varied = TypeVar("Varied")


@dataclass
class Session:
    """The worker of one call of the command line, and what it found so far."""

    arguments: argparse.Namespace
    client: WorkerClient
    user: Callable[[str], UserKernel | None]
    """The user's kernel of that name."""
    data: bytes
    """The file that the cases are about."""
    reports: list[Report] = field(default_factory=list)

    def backend(self) -> str:
        """Of the worker, once it runs. Raises InvalidProblem if it does not start."""
        missing = triton_missing()
        if missing or not self.client.wait_ready(START_LIMIT_S) or self.client.device is None:
            why = missing or self.client.start_failure or "it did not start"
            raise InvalidProblem("worker", "python -m kernels.worker", why)
        return self.client.device.backend

    def check(self, case: CheckCase, detailed: bool) -> CheckResult:
        """Check a case, vary it as the arguments ask, and print what came of it."""
        own = self.user(case.kernel)
        version = f"{own.argument} {own.version}" if own else ""
        job = self.client.submit(CheckRequest(case, version), self.data, self.arguments.time_limit)
        job.wait()
        result = checked_result(job, case, own.name if own else "", self.client.device)
        print(result_lines(result, detailed), flush=True)
        ran = case.kernel != UPLOADED and not (result.refused or result.stopped)
        sensitivity = determinism = None
        if ran and self.arguments.sensitivity:
            request = SensitivityRequest(case, version)
            sensitivity = self._varied("sensitivity", request, sensitivity_lines)
        if ran and self.arguments.determinism:
            determinism = self._varied("determinism", DeterminismRequest(case, version), determinism_lines)
        self.reports.append(Report(result, sensitivity, determinism))
        return result

    def _varied(
        self, name: str, request: CaseRequest[Varied], lines: Callable[[Varied], str]
    ) -> Varied | None:
        """What the variations gave. None if they failed: the verdict stands, and the failure is printed."""
        job = self.client.submit(request, self.data, self.arguments.time_limit)
        job.wait()
        try:
            varied = job.result()
        except FAILURES as error:
            print(f"{INDENT}{name} was not found out: {error}", flush=True)
            return None
        print(lines(varied), flush=True)
        return varied

    def write(self, command: str) -> None:
        """The reports that were asked for, whatever happened to the cases. The verdict does not depend on
        them: of a file that cannot be written it is said why."""
        if self.arguments.json:
            _write(self.arguments.json, to_json(self.reports, command))
        if self.arguments.html:
            worst = min(self.reports, key=lambda report: ORDER.index(report.result.verdict))
            results = [report.result for report in self.reports]
            own = self.user(worst.result.case.kernel)
            again = shell_command(worst.result.case, own.typed if own else "", str(self.arguments.file or ""))
            _write(self.arguments.html, to_html(worst, command=again, all_results=results))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        print(f"error: the report was not written: {error}", file=sys.stderr)
