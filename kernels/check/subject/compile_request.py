"""Asks the second worker, which compiles the user's kernels for a GPU, while the check of a case goes on."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.check.case.cases import CheckCase
from kernels.check.subject.compiling import Compiled, compile_case
from kernels.check.subject.user_kernel import UserKernel
from kernels.device.backend import COMPILES_ONLY
from kernels.worker.client import Job, WorkerClient
from kernels.worker.failures import FAILURES
from kernels.worker.requests import Answer, Progress, Request

LIMIT_S = 8.0
"""A check waits so long for the compiler after all else is done: a part of the time limit of a case."""
JOB_LIMIT_S = 60.0
"""Until then the compiler goes on, and a later case gets what it has compiled."""


@dataclass(frozen=True)
class CompileRequest(Request[Compiled]):
    """Do the kernels that a case launches compile for a GPU?"""

    answers = Compiled
    case: CheckCase
    kernel: str
    """The user's function, as `UserKernel.argument`."""

    def run(self, blob: bytes, progress: Progress) -> Answer:
        """The answer has no bytes."""
        return compile_case(UserKernel.unchecked(self.kernel), self.case), b""


_client: WorkerClient | None = None


def ask_compiler(case: CheckCase, kernel: UserKernel) -> Job[Compiled]:
    """Begin to compile what the function launches in the case."""
    global _client
    if _client is None:
        environment = {COMPILES_ONLY: "1", "TRITON_INTERPRET": "0"}
        _client = WorkerClient(JOB_LIMIT_S, environment=environment)
    return _client.submit(CompileRequest(case, kernel.argument))


def answer_of(job: Job[Compiled]) -> Compiled:
    """What came of it, within LIMIT_S."""
    try:
        return job.result(LIMIT_S)
    except TimeoutError:
        return Compiled(not_done=f"it took longer than {LIMIT_S:g} s")
    except FAILURES as error:
        return Compiled(not_done=f"the process of the compiler ended: {error}")
