"""Calls after the first one: the same inputs again, with gradients, other numbers, other configurations.

A kernel that keeps something of a call is right at first and wrong later: in another call, in the backward
pass of a call before the last, or in the second backward pass of one call.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import torch

from kernels.check.case.layouts import NAMES, Handed
from kernels.check.judge.calls import Calls
from kernels.check.subject.subjects import AttachedCall
from kernels.check.subject.user_errors import Broken, Refused
from kernels.device.no_gpu import CONFIGURATIONS
from kernels.device.runtime import DEVICE
from kernels.oracle.rule import GRADIENTS, Comparison, absolute_error
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_inputs

MOST_SCORES = 2**22
"""Other numbers are tried for problems up to so many scores: float64 is computed for them once more."""
BATTERY_SCORES = 10_000
"""With two runs or fewer, as in the battery, the graphs of several calls are tried up to so many scores."""

MOST_IN_THE_BATTERY = 2
"""Configurations that a case tries besides the first with two runs or fewer, as in the battery. Which ones
changes from case to case, so that all of the cases together try more."""
MOST = 16
"""The same for a case with more calls."""


def later_failure(calls: Calls, compared: dict[str, Comparison]) -> Broken | None:
    """What is wrong with a later call, although the first one was as `compared` says; None if nothing is."""
    for name, tensor in calls.later.items():
        words = "a later call on the same inputs is wrong, unlike the first"
        if failure := _too_far(words, name, tensor, compared[name]):
            return failure
    trained = calls.subject.trained.get("O") if calls.subject else None
    if trained is not None:
        words = "with inputs that require gradients its result is wrong, unlike without"
        if failure := _too_far(words, "O", trained, compared["O"]):
            return failure
    ways: tuple[tuple[str, Callable[[], Broken | None]], ...] = (
        ("with other numbers in the same tensors", lambda: _with_other_numbers(calls)),
        ("with another forward pass before its backward pass", lambda: _with_two_graphs(calls, compared)),
        ("with an input that requires no gradient", lambda: _with_fewer_gradients(calls, compared)),
    )
    for words, way in ways:
        try:
            failure = way()
        except (Broken, Refused) as error:
            return Broken.of(f"a later call, {words}, failed", error)
        if failure:
            return failure
    return _with_other_configurations(calls, compared)


def _too_far(words: str, name: str, tensor: torch.Tensor, right: Comparison) -> Broken | None:
    """The failure, if a tensor is further from the exact one than the rule allows."""
    error = float(absolute_error(tensor.to(right.exact.device), right.exact).max())
    allowed = right.report.tolerance
    if error <= allowed:
        return None
    return Broken(f"{words}: {name} is off by {error:.1e}; {allowed:.1e} is allowed")


def _with_other_numbers(calls: Calls) -> Broken | None:
    """Call twice with other numbers written into the same tensors in between.

    The first result must stay as it was, and the second must be that of the second numbers.
    """
    case, subject, problem = calls.case, calls.subject, calls.case.problem
    if subject is None or case.upload or _scores(calls) > MOST_SCORES:
        return None
    handed = Handed(calls.tensors.inputs, case.layout)
    first, _ = subject.forward(*handed.tensors)
    kept = first.clone()
    others = make_inputs(_with_other_seed(problem), DEVICE)
    for tensor, other in zip(handed.tensors, others, strict=True):
        tensor.copy_(other)
    second, _ = subject.forward(*handed.tensors)
    if not torch.equal(first.nan_to_num(), kept.nan_to_num()):
        return Broken("its result is overwritten by the next call: both calls return the same memory")
    right = calls.references(others).compare(second)
    words = "with other numbers in the same tensors a later call is wrong"
    return _too_far(words, "O", second, right)


def _with_other_seed(problem: AttentionProblem) -> AttentionProblem:
    return problem.with_(seed=problem.seed - 1 if problem.seed else 1)


def _scores(calls: Calls) -> int:
    problem = calls.case.problem
    return problem.batch * problem.q_heads * problem.q_len * problem.kv_len


def _attached_call(calls: Calls) -> AttachedCall | None:
    """The call that keeps its graph; None if there is none, or the problem is too large to try it."""
    most = MOST_SCORES if calls.case.repeats > 2 else BATTERY_SCORES
    has_gradients = calls.subject is not None and GRADIENTS[0] in calls.got
    return calls.subject.attached if has_gradients and _scores(calls) <= most else None  # type: ignore[union-attr]


def _with_two_graphs(calls: Calls, compared: dict[str, Comparison]) -> Broken | None:
    """Two forward passes, then the first one's backward pass, twice."""
    attached, problem = _attached_call(calls), calls.case.problem
    if attached is None:
        return None
    handed = Handed((*calls.tensors.inputs, calls.tensors.d_out), calls.case.layout)
    *inputs, d_out = handed.tensors
    others = Handed(make_inputs(_with_other_seed(problem), DEVICE), calls.case.layout)
    first = attached(*inputs)
    second = attached(*others.tensors)  # it stays alive, and its memory is not given to others
    for words in (
        "after another forward pass with other numbers, the backward pass of the first is wrong",
        "a second backward pass of the same graph (retain_graph=True) is wrong, unlike the first",
    ):
        for name, gradient in first.gradients(d_out, keep=True).items():
            if failure := _too_far(words, name, gradient, compared[name]):
                return failure
    del second
    return None


def _with_fewer_gradients(calls: Calls, compared: dict[str, Comparison]) -> Broken | None:
    """Each input in turn requires no gradient; those of the others must be what they were."""
    attached = _attached_call(calls)
    if attached is None:
        return None
    for left_out, tensor in zip(GRADIENTS, NAMES, strict=False):
        handed = Handed((*calls.tensors.inputs, calls.tensors.d_out), calls.case.layout)
        *inputs, d_out = handed.tensors
        learning = [name for name in GRADIENTS if name != left_out]
        words = f"if {tensor} requires no gradient, another one is wrong"
        for name, gradient in attached(*inputs, learning=learning).gradients(d_out).items():
            if failure := _too_far(words, name, gradient, compared[name]):
                return failure
    return None


def _with_other_configurations(calls: Calls, compared: dict[str, Comparison]) -> Broken | None:
    """What is wrong with another configuration of `@triton.autotune`: on a GPU any may be the fastest.

    The notes of the runs say how many were tried.
    """
    count = max(map(len, CONFIGURATIONS.settings.values()), default=1)
    if count == 1:
        return None
    tried = _configurations(count, calls)
    try:
        for number in tried:
            CONFIGURATIONS.number = number
            if failure := _with_configuration(calls, compared, number, count):
                return failure
    finally:
        CONFIGURATIONS.number = 0
    calls.own_notes.append(
        f"Configurations of @triton.autotune: {1 + len(tried)} of {count} were run on this case (number "
        f"{', '.join(str(number + 1) for number in [0, *tried])})."
    )
    return None


def _configurations(count: int, calls: Calls) -> list[int]:
    """Numbers of the configurations to try, counted from 0, without the first."""
    most = MOST if calls.case.repeats > 2 else MOST_IN_THE_BATTERY
    start = zlib.crc32(calls.case.words.encode())
    return sorted(1 + (start + step) % (count - 1) for step in range(min(most, count - 1)))


def _with_configuration(
    calls: Calls, compared: dict[str, Comparison], number: int, count: int
) -> Broken | None:
    words = f"with configuration {number + 1} of {count} of @triton.autotune"
    settings = "; ".join(
        f"{kernel}: {each[number % len(each)]}"
        for kernel, each in CONFIGURATIONS.settings.items()
        if len(each) > 1
    )
    try:
        got = calls.again()
    except Refused as error:
        calls.own_notes.append(f"Not checked {words}: {error}.")
        return None
    except Broken as error:
        return Broken.of(f"{words} ({settings}) it failed", error)
    for name, tensor in got.items():
        wrong = f"{words} ({settings}) a result is wrong, unlike with the first"
        if name in compared and (failure := _too_far(wrong, name, tensor, compared[name])):
            return failure
    return None
