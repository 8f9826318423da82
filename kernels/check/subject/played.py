"""Plays the user's kernel: a trace of what it loads and stores on the problem's own inputs."""

from __future__ import annotations

from kernels.check.case.cases import CheckCase
from kernels.check.case.layouts import Handed
from kernels.check.subject.subjects import make_subject
from kernels.check.subject.user_errors import Broken, Refused
from kernels.check.subject.user_kernel import UserKernelError, user_kernel
from kernels.device.runtime import DEVICE
from kernels.problem import InvalidProblem
from kernels.problem.inputs import make_inputs
from kernels.sanitizer.play import play
from kernels.trace import Trace


def play_user_kernel(case: CheckCase) -> Trace:
    """The trace of one forward pass in the interpreter. Raises InvalidProblem if it cannot be played."""
    name, problem = user_kernel(case.kernel).name, case.problem
    try:
        subject = make_subject(case)
        query, key, value = Handed(make_inputs(problem, DEVICE), case.layout).tensors
        return play(problem, (query, key, value), lambda *tensors: subject.forward(*tensors)[0], name)
    except (Broken, Refused, UserKernelError) as error:
        raise InvalidProblem("kernel", name, f"it cannot be played: {error}") from error
