"""Names a function as the user's kernel, and checks it; the command line without a worker process."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from kernels.check import session
from kernels.check.case.cases import CheckCase
from kernels.check.judge.run import run_check
from kernels.check.subject.hosted import Hosted
from kernels.check.subject.user_kernel import UserKernel, name_user_kernels
from kernels.device.backend import device_info
from kernels.device.runtime import BACKEND
from kernels.problem import AttentionProblem
from kernels.worker.process import decode, encode

TINY = CheckCase(AttentionProblem(q_len=16, kv_len=16, head_dim=16), "user", False, 2)


@pytest.fixture
def named(tmp_path):
    """The kernel of that name in a file, or in a source that is saved as mine.py."""

    def name(source, function="attention"):
        path = source if isinstance(source, Path) else tmp_path / "mine.py"
        if path is not source:
            path.write_text(source)
        kernel = UserKernel.parse(f"{path}:{function}")
        name_user_kernels([kernel])
        Hosted.of = ""  # the functions of tests share one process, which takes 4 s of a CPU to start
        return kernel

    return name


@pytest.fixture
def checked(named):
    """The result of the function's check on TINY, with some fields of the case or its problem changed."""

    def check(source, function="attention", case=TINY, **changes):
        named(source, function)
        of_case = {key: changes.pop(key) for key in [*changes] if hasattr(case, key)}
        problem = case.problem.with_(**changes)
        return run_check(replace(case, problem=problem, **of_case))

    return check


class HereClient:
    """Runs each request in this process, with plain values between them as in the pipe."""

    def __init__(self, kernels=()):
        name_user_kernels([UserKernel.unchecked(kernel) for kernel in kernels])
        self.device, self.start_failure = device_info(BACKEND), None

    def wait_ready(self, timeout_s):
        return True

    def submit(self, request, time_limit_s):
        Hosted.of = ""  # likewise
        again = msgspec.convert(msgspec.to_builtins(request), type(request))
        answer = decode(encode(again.run(lambda fraction, words: None)))
        result = msgspec.convert(answer, request.answers)
        return SimpleNamespace(wait=lambda: None, result=lambda: result)

    @staticmethod
    def failed(failure):
        def result():
            raise failure

        return SimpleNamespace(wait=lambda: None, result=result)

    def close(self):
        pass


@pytest.fixture
def here(monkeypatch):
    """The command line in this process alone, without a worker."""
    monkeypatch.setattr(session, "WorkerClient", HereClient)
    return HereClient
