"""A grid of cases that is being checked: what has been asked for, what has ended, what comes first."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernels.check.cases import CheckCase
from kernels.check.result import CheckResult
from kernels.check.summary import ORDER
from kernels.worker.failures import Cancelled
from kernels.worker.job import Job
from viz.check.context import CheckContext

AT_ONCE = 2
"""At most so many cases of a grid wait or run at a time.

The worker then has no pause between them, and other sessions do not wait for a whole grid.
"""
Outcome = CheckResult | Cancelled
"""A case that ended, or that somebody stopped."""


@dataclass
class GridRun:
    """One grid of a session: its cases, and the jobs so far. Results stay if it is stopped."""

    cases: tuple[CheckCase, ...]
    jobs: list[Job[CheckResult]] = field(default_factory=list)
    stopped: bool = False
    versions: dict[str, str] = field(default_factory=dict)
    """Of each kernel, when its first case was asked for."""

    @property
    def done(self) -> int:
        """Cases that have ended."""
        return sum(job.done for job in self.jobs)

    @property
    def running(self) -> bool:
        """Whether a case is under way or still to come."""
        return self.done < len(self.jobs) or (not self.stopped and len(self.jobs) < len(self.cases))

    def advance(self, context: CheckContext) -> None:
        """Hand the worker the next cases, at most AT_ONCE at a time."""
        while not self.stopped and len(self.jobs) < len(self.cases) and len(self.jobs) - self.done < AT_ONCE:
            case = self.cases[len(self.jobs)]
            request = context.check(case)
            self.versions.setdefault(case.kernel, request.kernel_version)
            self.jobs.append(context.store.job(request))

    def is_older(self, context: CheckContext) -> bool:
        """Whether the file of a kernel, or one that it imports, was saved since the run began."""
        by_kernel = {case.kernel: case for case in self.cases}
        return any(context.version(by_kernel[name]) != version for name, version in self.versions.items())

    def forget(self, context: CheckContext) -> None:
        """Let the same cases be checked anew."""
        for job in self.jobs:
            context.store.forget(job)

    def stop(self, context: CheckContext) -> None:
        """Start no further case, and cut short those under way. The next to ask for these gets a verdict."""
        self.stopped = True
        for job in self.jobs:
            if not job.done:
                job.cancel()
                context.store.forget(job)

    def outcomes(self, context: CheckContext) -> list[tuple[CheckCase, Outcome]]:
        """Cases that have ended: failures first, then those with the largest share of the allowed error."""
        pairs = zip(self.cases, self.jobs, strict=False)
        ended = [(case, _outcome(context, case, job)) for case, job in pairs if job.done]
        return sorted(ended, key=lambda pair: _rank(pair[1]))


def _outcome(context: CheckContext, case: CheckCase, job: Job[CheckResult]) -> Outcome:
    try:
        return context.result(job, case)
    except Cancelled as error:
        return error


def verdict_of(outcome: Outcome) -> str:
    """That of the result, or "error" for a case that was stopped."""
    return "error" if isinstance(outcome, Exception) else outcome.verdict


def _rank(outcome: Outcome) -> tuple[int, float]:
    return ORDER.index(verdict_of(outcome)), 0.0 if isinstance(outcome, Exception) else -outcome.worst_share
