"""The result of a check's job, also of one whose kernel crashed, hung or ran out of memory."""

from __future__ import annotations

import signal

from kernels.check.cases import CheckCase
from kernels.check.result import CheckResult, label_of
from kernels.device.backend import DeviceInfo, utc_now
from kernels.problem import InvalidProblem
from kernels.worker.failures import Cancelled, Crashed, JobFailure, TimedOut
from kernels.worker.job import Job

SIGNALS = {
    signal.SIGSEGV: "it read or wrote memory that does not exist",
    signal.SIGBUS: "it read or wrote memory that does not exist",
    signal.SIGABRT: "a library gave up: broken memory, or an assertion of its own",
    signal.SIGFPE: "a division by zero of whole numbers",
    signal.SIGILL: "an instruction that this processor does not have",
}


def checked_result(
    job: Job[CheckResult], case: CheckCase, user_name: str, device: DeviceInfo | None
) -> CheckResult:
    """The result of a job that has ended. One without an answer says why, in its verdict.

    Raises Cancelled.
    """
    try:
        return job.result()
    except Cancelled:
        raise
    except InvalidProblem as error:
        words = {"refused": str(error)}
    except (JobFailure, TimeoutError) as error:
        words = _ended(error)
    device = device or DeviceInfo("", "unknown", "", "", "")
    return CheckResult(case, label_of(case, user_name), device, utc_now(), 0.0, **words)  # type: ignore[arg-type]


def _ended(error: Exception) -> dict[str, str]:
    """A crash is the kernel's failure. A limit of time or memory leaves the question open."""
    if isinstance(error, Crashed) and error.exit_code is not None:
        if error.exit_code == -signal.SIGKILL:
            return {"stopped": "the system ended the process, most likely because memory ran out"}
        return {"broken": crash_words(error.exit_code, error.detail)}
    if isinstance(error, TimedOut):
        return {
            "stopped": f"it had not ended after {error.limit_s:g} s, the time limit: it hangs, or is slow"
        }
    return {"stopped": str(error).rstrip(".")}


def crash_words(exit_code: int, detail: str = "") -> str:
    """What the end of a process says about its kernel. `exit_code` is negative for a signal."""
    if exit_code < 0:
        name = signal.Signals(-exit_code).name if -exit_code in {*signal.Signals} else f"signal {-exit_code}"
        why = SIGNALS.get(signal.Signals(-exit_code), "") if -exit_code in {*signal.Signals} else ""
        how = f"it crashed the process with {name} (exit status {128 - exit_code} in a shell)"
        return f"{how}: {why}" if why else how
    why = f": {detail}" if detail else ""
    return f"it ended the process with exit status {exit_code}, without a result{why}"
