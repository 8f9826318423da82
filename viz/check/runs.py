"""Checks as the pages ask for them: the job of a case, its result, and a grid of cases that shares the queue with everybody."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from kernels.check.cases import UPLOADED, USER, CheckCase
from kernels.check.result import CheckResult, Sensitivity, maps_from_bytes
from kernels.check.user_kernel import UserKernel
from kernels.problem import InvalidProblem
from kernels.worker.client import Job, JobFailure
from viz.shared.runs import RunStore

AT_ONCE = 2
"""Cases of a grid that wait or run at a time: the worker has no pause between them, and other sessions are not kept waiting."""


def version_of(case: CheckCase, user: UserKernel | None) -> str:
    """What tells results of the user's kernel apart after the file was saved again."""
    return f"{user.argument} {user.version}" if user and case.kernel == USER else ""


@functools.lru_cache(maxsize=64)
def finished_check(job: Job) -> CheckResult:
    """The result of a check job that has ended. Raises what the job raises."""
    answer, blob = job.result(0)
    return CheckResult.from_dict(answer["check"], maps_from_bytes(blob))


@functools.lru_cache(maxsize=64)
def finished_sensitivity(job: Job) -> Sensitivity:
    """The result of a job with part "sensitivity" that has ended. Raises what the job raises."""
    return Sensitivity.from_dict(job.result(0)[0]["sensitivity"])


def can_vary(result: CheckResult) -> bool:
    """Whether tiles and scale of the case can be varied: its kernel ran, here."""
    return result.case.kernel != UPLOADED and not result.refused and not result.broken


@dataclass
class GridRun:
    """One grid of a session: its cases, and the jobs so far. Results stay when it is stopped."""

    cases: tuple[CheckCase, ...]
    left_out: str
    user: UserKernel | None
    jobs: list[Job] = field(default_factory=list)
    stopped: bool = False

    @property
    def done(self) -> int:
        return sum(job.done for job in self.jobs)

    @property
    def running(self) -> bool:
        return self.done < len(self.jobs) or (not self.stopped and len(self.jobs) < len(self.cases))

    def advance(self, store: RunStore) -> None:
        """Hand the worker the next cases, at most AT_ONCE at a time."""
        while not self.stopped and len(self.jobs) < len(self.cases) and len(self.jobs) - self.done < AT_ONCE:
            case = self.cases[len(self.jobs)]
            self.jobs.append(store.check(case, kernel_version=version_of(case, self.user)))

    def stop(self) -> None:
        """Start no further case; the one that runs is cut short."""
        self.stopped = True
        for job in self.jobs:
            if not job.done:
                job.cancel()

    def outcomes(self) -> list[tuple[CheckCase, CheckResult | Exception]]:
        """Cases that have ended, failures first, then the largest share of the allowed error first."""
        ended = []
        for case, job in zip(self.cases, self.jobs, strict=False):
            if job.done:
                try:
                    ended.append((case, finished_check(job)))
                except (InvalidProblem, JobFailure) as error:
                    ended.append((case, error))
        return sorted(ended, key=lambda entry: _order(entry[1]))


def _order(outcome: CheckResult | Exception) -> tuple[int, float]:
    if isinstance(outcome, Exception):
        return 1, 0.0
    return {"fail": 0, "invalid": 2, "pass": 3}[outcome.verdict], -worst_share(outcome)


def worst_share(result: CheckResult) -> float:
    """Largest error over what is allowed, of all tensors."""
    shares = [
        tensor.max_error / tensor.tolerance if tensor.tolerance else (0.0 if tensor.passes else float("inf"))
        for tensor in result.tensors
    ]
    return max(shares, default=0.0)
