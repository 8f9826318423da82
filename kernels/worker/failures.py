"""How a job can fail: the exceptions that the client raises, and the messages that carry them there."""

import re

from kernels.device.memory import available_memory_bytes, is_out_of_memory, process_data_bytes
from kernels.problem import InvalidProblem

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


class JobFailure(Exception):
    """A job that gave no result. The subclasses say why."""


FAILURES = (InvalidProblem, JobFailure)
"""What `Job.result` raises for a job that ended without a result."""


class OutOfMemory(JobFailure):
    """The device had too little memory. `asked_bytes` is None if the allocator did not say."""

    def __init__(self, asked_bytes: int | None, free_bytes: int) -> None:
        self.asked_bytes, self.free_bytes = asked_bytes, free_bytes
        asked = f"{asked_bytes / 1e9:,.2f} GB" if asked_bytes is not None else "more memory"
        free = f"{free_bytes / 1e9:,.2f} GB free"
        super().__init__(f"Out of memory: asked for {asked}, {free}. Choose a smaller problem.")


class TimedOut(JobFailure):
    """The job ran longer than its limit, and the worker was restarted."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        remedy = "Choose a smaller problem or larger tiles."
        super().__init__(f"Stopped after {limit_s:g} s, the time limit. {remedy}")


class Crashed(JobFailure):
    """The worker process ended in the middle of the job. `exit_code` is negative for a signal."""

    def __init__(self, exit_code: int | None, detail: str = "") -> None:
        self.exit_code, self.detail = exit_code, detail
        how = "no process"
        if exit_code is not None:
            how = f"signal {-exit_code}" if exit_code < 0 else f"exit status {exit_code}"
        why = f": {detail}" if detail else ""
        super().__init__(f"The worker process crashed ({how}){why}. It was restarted; try again.")


class Cancelled(JobFailure):
    def __init__(self) -> None:
        super().__init__("Cancelled.")


def message_of(error: BaseException) -> dict:
    """What the client needs to raise the same failure. Called in the worker.

    If an invalid problem or a lack of memory is among the causes of the exception, the message is about that.
    The kind "crashed" means that the CUDA context is lost.
    """
    causes = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    for each in causes:
        if isinstance(each, InvalidProblem):
            return {"kind": "invalid_problem", "message": str(each), "field": each.field}
        if is_out_of_memory(each):
            return {"kind": "out_of_memory", "asked": _asked_bytes(str(each)), "free": _free_bytes()}
        if isinstance(each, JobFailure):  # of the host
            return {"kind": "failed", "message": str(each)}
    line = f"{type(causes[-1]).__name__}: {causes[-1]}".splitlines()[0]
    return {"kind": "crashed" if "CUDA error" in line else "failed", "message": line}


def failure_of(message: dict, exit_code: int | None) -> Exception:
    """The reverse of `message_of`, in the client; `exit_code` is that of a worker that crashed."""
    if message["kind"] == "invalid_problem":
        return InvalidProblem.from_message(message["field"], message["message"])
    if message["kind"] == "out_of_memory":
        return OutOfMemory(message["asked"], message["free"])
    if message["kind"] == "crashed":
        return Crashed(exit_code, message["message"])
    return JobFailure(message["message"])


def _asked_bytes(message: str) -> int | None:
    """Bytes that an allocator's message names; None if it names none.

    torch on the CPU counts bytes; torch on CUDA and NumPy write "2.00 GiB".
    """
    asked = re.search(rf"allocate ([\d.]+) ({'|'.join(UNITS)})", message)
    return int(float(asked[1]) * 1024 ** UNITS.index(asked[2])) if asked else None


def _free_bytes() -> int:
    import resource

    import torch

    from kernels.device.runtime import BACKEND

    if BACKEND == "cuda":
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info()[0]
    free, limit = available_memory_bytes(), resource.getrlimit(resource.RLIMIT_DATA)[0]
    return free if limit == resource.RLIM_INFINITY else min(free, max(limit - process_data_bytes(), 0))
