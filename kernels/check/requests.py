"""Jobs of the worker about the case of a check: verdict, and what its kernel moves."""

import signal
from dataclasses import dataclass, replace

from kernels.check.case.cases import CheckCase
from kernels.check.result import CheckResult
from kernels.check.subject.user_errors import crash_words, ended_by
from kernels.device.backend import DeviceInfo, utc_now
from kernels.problem import InvalidProblem
from kernels.trace import Trace
from kernels.worker.client import Job
from kernels.worker.failures import Crashed, JobFailure, TimedOut
from kernels.worker.requests import Progress, Request, TracedRequest


@dataclass(frozen=True)
class CheckRequest(Request[CheckResult]):
    """The verdict on a case."""

    answers = CheckResult
    case: CheckCase
    kernel_version: str = ""
    """Tells two versions of the user's own kernel apart."""

    def run(self, progress: Progress) -> CheckResult:
        from kernels.check.judge.run import run_check

        return run_check(self.case, progress)


@dataclass(frozen=True)
class PlayRequest(TracedRequest):
    """Run the user's own kernel once in the interpreter, and watch what it loads and stores."""

    case: CheckCase
    kernel_version: str = ""

    @property
    def runs_user_code(self) -> bool:
        return True

    def trace(self) -> Trace:
        from kernels.check.subject.hosting import play_user_kernel

        return play_user_kernel(self.case)


def checked_result(
    job: Job[CheckResult], case: CheckCase, user_name: str, device: DeviceInfo | None
) -> CheckResult:
    """The result of a job that has ended, also of one whose kernel crashed, hung or ran out of memory.

    A crash is the kernel's failure. To cancel it, or a limit of time or memory, leaves the question open.
    """
    try:
        return job.result()
    except (InvalidProblem, JobFailure) as error:
        device = device or DeviceInfo("", "unknown", "", "", "")
        empty = CheckResult(case, case.label(user_name), device, utc_now(), 0.0, ended=ended_by(error))
        if isinstance(error, InvalidProblem):
            return replace(empty, refused=str(error))
        if isinstance(error, TimedOut):
            after = f"it had not ended after {error.limit_s:g} s, the time limit"
            return replace(empty, stopped=f"{after}: it hangs, or is slow")
        if not isinstance(error, Crashed) or error.exit_code is None:
            return replace(empty, stopped=str(error).rstrip("."))
        if error.exit_code == -signal.SIGKILL:
            return replace(empty, stopped="the system ended the process, most likely because memory ran out")
        return replace(empty, broken=crash_words(error.exit_code, error.detail))
