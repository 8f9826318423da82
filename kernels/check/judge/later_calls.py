"""Calls after the first one: the same inputs again, with gradients, other numbers, other configurations.

A kernel that keeps something of a call is right at first and wrong later: in another call, in the backward
pass of a call before the last, or in the second backward pass of one call.
"""

import zlib
from collections.abc import Callable

import torch

from kernels.check.case.cases import USERS
from kernels.check.case.layouts import NAMES, Handed
from kernels.check.judge.calls import Calls
from kernels.check.subject.subjects import AttachedCall
from kernels.check.subject.user_errors import Broken, Refused
from kernels.device.no_gpu import CONFIGURATIONS
from kernels.device.runtime import DEVICE
from kernels.oracle.exact import Inputs
from kernels.oracle.rule import GRADIENTS, Comparison, absolute_error
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

Compared = dict[str, Comparison]


class Wrong(Broken):
    """A later call failed, or its result is not what the first call's was."""


def later_failure(calls: Calls, compared: Compared) -> Broken | None:
    """What is wrong with a later call, although the first one was as `compared` says; None if nothing is."""
    try:
        _hold("a later call on the same inputs is wrong, unlike the first", calls.later, compared)
        if calls.trained is not None and calls.case.kernel in USERS:
            words = "with inputs that require gradients its result is wrong, unlike without"
            _hold(words, {"O": calls.trained}, compared)
        for words, way in WAYS.items():
            try:
                way(calls, compared)
            except Wrong:
                raise
            except (Broken, Refused) as error:
                raise Wrong.of(f"a later call, {words}, failed", error) from error
        _with_other_configurations(calls, compared)
    except Wrong as failure:
        return failure
    return None


def _hold(words: str, got: dict[str, torch.Tensor], compared: Compared) -> None:
    """Raises Wrong if a tensor is further from the exact one than the rule allows."""
    for name in filter(compared.__contains__, got):
        right = compared[name]
        error = float(absolute_error(got[name].to(right.exact.device), right.exact).max())
        allowed = right.report.tolerance
        if not error <= allowed:
            raise Wrong(f"{words}: {name} is off by {error:.1e}; {allowed:.1e} is allowed")


def _with_other_numbers(calls: Calls, compared: Compared) -> None:
    """Call twice with other numbers written into the same tensors in between.

    The first result must stay as it was, and the second must be that of the second numbers.
    """
    subject = calls.subject
    if subject is None or calls.case.upload or _scores(calls) > MOST_SCORES:
        return
    handed, others = Handed(calls.tensors.inputs, calls.case.layout), _other_inputs(calls)
    first, _ = subject.forward(*handed.tensors)
    kept = first.clone()
    for tensor, other in zip(handed.tensors, others, strict=True):
        tensor.copy_(other)
    second, _ = subject.forward(*handed.tensors)
    if not torch.equal(first.nan_to_num(), kept.nan_to_num()):
        raise Wrong("its result is overwritten by the next call: both calls return the same memory")
    right = {"O": calls.references(others).compare(second)}
    _hold("with other numbers in the same tensors a later call is wrong", {"O": second}, right)


def _other_inputs(calls: Calls) -> Inputs:
    """Q, K and V of another seed."""
    problem = calls.case.problem
    return make_inputs(problem.with_(seed=problem.seed - 1 if problem.seed else 1), DEVICE)


def _scores(calls: Calls) -> int:
    problem = calls.case.problem
    return problem.batch * problem.q_heads * problem.q_len * problem.kv_len


def _attached_call(calls: Calls) -> AttachedCall | None:
    """The user's call that keeps its graph; None if there is none, or the problem is too large to try it."""
    most = MOST_SCORES if calls.case.repeats > 2 else BATTERY_SCORES
    tried = calls.case.kernel in USERS and GRADIENTS[0] in calls.got and _scores(calls) <= most
    return calls.subject.attached if tried and calls.subject else None


def _with_two_graphs(calls: Calls, compared: Compared) -> None:
    """Two forward passes, then the first one's backward pass, twice."""
    attached = _attached_call(calls)
    if attached is None:
        return
    *inputs, d_out = Handed((*calls.tensors.inputs, calls.tensors.d_out), calls.case.layout).tensors
    first = attached(*inputs)
    second = attached(*Handed(_other_inputs(calls), calls.case.layout).tensors)
    for words in (
        "after another forward pass with other numbers, the backward pass of the first is wrong",
        "a second backward pass of the same graph (retain_graph=True) is wrong, unlike the first",
    ):
        _hold(words, first.gradients(d_out, keep=True), compared)
    del second  # until here it is alive, and its memory is not given to others


def _with_fewer_gradients(calls: Calls, compared: Compared) -> None:
    """Each input in turn requires no gradient; those of the others must be what they were."""
    attached = _attached_call(calls)
    if attached is None:
        return
    for left_out, tensor in zip(GRADIENTS, NAMES, strict=False):
        *inputs, d_out = Handed((*calls.tensors.inputs, calls.tensors.d_out), calls.case.layout).tensors
        learning = [name for name in GRADIENTS if name != left_out]
        got = attached(*inputs, learning=learning).gradients(d_out)
        _hold(f"if {tensor} requires no gradient, another one is wrong", got, compared)


WAYS: dict[str, Callable[[Calls, Compared], None]] = {
    "with other numbers in the same tensors": _with_other_numbers,
    "with another forward pass before its backward pass": _with_two_graphs,
    "with an input that requires no gradient": _with_fewer_gradients,
}
"""Later calls that are tried, by what is different in them."""


def _with_other_configurations(calls: Calls, compared: Compared) -> None:
    """Other configurations of `@triton.autotune`: on a GPU any may be the fastest.

    The notes of the runs say how many were tried.
    """
    count = max(map(len, CONFIGURATIONS.settings.values()), default=1)
    if count == 1:
        return
    most = MOST if calls.case.repeats > 2 else MOST_IN_THE_BATTERY
    start = zlib.crc32(calls.case.words.encode())
    tried = sorted(1 + (start + step) % (count - 1) for step in range(min(most, count - 1)))
    try:
        for number in tried:
            CONFIGURATIONS.number = number
            _with_configuration(calls, compared, f"configuration {number + 1} of {count}", number)
    finally:
        CONFIGURATIONS.number = 0
    numbers = ", ".join(str(number + 1) for number in [0, *tried])
    calls.own_notes.append(
        f"Configurations of @triton.autotune: {1 + len(tried)} of {count} were run on this case (number "
        f"{numbers})."
    )


def _with_configuration(calls: Calls, compared: Compared, which: str, number: int) -> None:
    of_kernels = CONFIGURATIONS.settings.items()
    settings = "; ".join(f"{kernel}: {each[number % len(each)]}" for kernel, each in of_kernels if each[1:])
    words = f"with {which} of @triton.autotune ({settings})"
    try:
        got = calls.again()
    except Refused as error:
        calls.own_notes.append(f"Not checked {words}: {error}.")
    except Broken as error:
        raise Wrong.of(f"{words} it failed", error) from error
    else:
        _hold(f"{words} a result is wrong, unlike with the first", got, compared)
