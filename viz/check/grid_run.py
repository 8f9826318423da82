"""A grid of cases that is being checked: what has been asked for, what has ended, what comes first."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from kernels.check.cases import CheckCase
from kernels.check.result import CheckResult
from kernels.worker.job import Job
from viz.check.context import CheckContext
from viz.shared.waiting import FAILURES

AT_ONCE = 2
"""At most so many cases of a grid wait or run at a time.

The worker then has no pause between them, and other sessions do not wait for a whole grid.
"""
ORDER = {"fail": 0, "error": 1, "invalid": 2, "pass": 3}

Outcome = CheckResult | Exception


@dataclass
class GridRun:
    """One grid of a session: its cases, and the jobs so far. Results stay if it is stopped."""

    cases: tuple[CheckCase, ...]
    jobs: list[Job[CheckResult]] = field(default_factory=list)
    stopped: bool = False

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
            request = context.check(self.cases[len(self.jobs)])
            self.jobs.append(context.store.job(request))

    def stop(self) -> None:
        """Start no further case, and cut short the one that runs."""
        self.stopped = True
        for job in self.jobs:
            if not job.done:
                job.cancel()

    def outcomes(self) -> list[tuple[CheckCase, Outcome]]:
        """Cases that have ended: failures first, then those with the largest share of the allowed error."""
        ended = [(case, _outcome(job)) for case, job in zip(self.cases, self.jobs, strict=False) if job.done]
        return sorted(ended, key=lambda pair: _rank(pair[1]))


def _outcome(job: Job[CheckResult]) -> Outcome:
    try:
        return job.result()
    except FAILURES as error:
        return error


def verdict_of(outcome: Outcome) -> str:
    """ "pass", "fail", "invalid", or "error" for a job that gave no result."""
    return "error" if isinstance(outcome, Exception) else outcome.verdict


def _rank(outcome: Outcome) -> tuple[int, float]:
    return ORDER[verdict_of(outcome)], 0.0 if isinstance(outcome, Exception) else -worst_share(outcome)


def worst_share(result: CheckResult) -> float:
    """Largest error over what is allowed, of all tensors; above 1 fails."""
    shares = [0.0]
    for tensor in result.tensors:
        if tensor.tolerance:
            shares.append(tensor.max_error / tensor.tolerance)
        else:
            shares.append(0.0 if tensor.passes else math.inf)
    return max(shares)
