"""Calls after the first one: the same inputs again, with gradients, and other numbers in the same tensors.

A kernel that keeps something of a call is right at first and wrong later: in another call, in the backward
pass of a call before the last, or in the second backward pass of one call.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from kernels.check.configurations import configuration_failure
from kernels.check.layouts import NAMES, Handed
from kernels.check.runs import Runs
from kernels.check.subjects import AttachedCall
from kernels.check.user_errors import Broken, Refused
from kernels.device.runtime import DEVICE
from kernels.oracle.rule import GRADIENTS, Comparison, absolute_error
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_inputs

MOST_SCORES = 2**22
"""Other numbers are tried for problems up to so many scores: float64 is computed for them once more."""
BATTERY_SCORES = 10_000
"""With two runs or fewer, as in the battery, the graphs of several calls are tried up to so many scores."""


def later_failure(runs: Runs, compared: dict[str, Comparison]) -> Broken | None:
    """What is wrong with a later call, although the first one was as `compared` says; None if nothing is."""
    for name, tensor in runs.later.items():
        words = "a later call on the same inputs is wrong, unlike the first"
        if failure := _too_far(words, name, tensor, compared[name]):
            return failure
    trained = runs.subject.trained.get("O") if runs.subject else None
    if trained is not None:
        words = "with inputs that require gradients its result is wrong, unlike without"
        if failure := _too_far(words, "O", trained, compared["O"]):
            return failure
    ways: tuple[tuple[str, Callable[[], Broken | None]], ...] = (
        ("with other numbers in the same tensors", lambda: _with_other_numbers(runs)),
        ("with another forward pass before its backward pass", lambda: _with_two_graphs(runs, compared)),
        ("with an input that requires no gradient", lambda: _with_fewer_gradients(runs, compared)),
    )
    for words, way in ways:
        try:
            failure = way()
        except (Broken, Refused) as error:
            trace = error.trace if isinstance(error, Broken) else ""
            return Broken(f"a later call, {words}, failed: {error}", trace)
        if failure:
            return failure

    def judge(words: str, name: str, tensor: torch.Tensor) -> Broken | None:
        return _too_far(words, name, tensor, compared[name]) if name in compared else None

    return configuration_failure(runs, judge)


def _too_far(words: str, name: str, tensor: torch.Tensor, right: Comparison) -> Broken | None:
    """The failure, if a tensor is further from the exact one than the rule allows."""
    error = float(absolute_error(tensor.to(right.exact.device), right.exact).max())
    allowed = right.report.tolerance
    if error <= allowed:
        return None
    return Broken(f"{words}: {name} is off by {error:.1e}; {allowed:.1e} is allowed")


def _with_other_numbers(runs: Runs) -> Broken | None:
    """Call twice with other numbers written into the same tensors in between.

    The first result must stay as it was, and the second must be that of the second numbers.
    """
    case, subject, problem = runs.case, runs.subject, runs.case.problem
    if subject is None or case.upload or _scores(runs) > MOST_SCORES:
        return None
    handed = Handed(runs.tensors.inputs, case.layout)
    first, _ = subject.forward(*handed.tensors)
    kept = first.clone()
    others = make_inputs(_with_other_seed(problem), DEVICE)
    for tensor, other in zip(handed.tensors, others, strict=True):
        tensor.copy_(other)
    second, _ = subject.forward(*handed.tensors)
    if not torch.equal(first.nan_to_num(), kept.nan_to_num()):
        return Broken("its result is overwritten by the next call: both calls return the same memory")
    right = runs.references(others).compare(second)
    words = "with other numbers in the same tensors a later call is wrong"
    return _too_far(words, "O", second, right)


def _with_other_seed(problem: AttentionProblem) -> AttentionProblem:
    return problem.with_(seed=problem.seed - 1 if problem.seed else 1)


def _scores(runs: Runs) -> int:
    problem = runs.case.problem
    return problem.batch * problem.q_heads * problem.q_len * problem.kv_len


def _attached_call(runs: Runs) -> AttachedCall | None:
    """The call that keeps its graph; None if there is none, or the problem is too large to try it."""
    most = MOST_SCORES if runs.case.repeats > 2 else BATTERY_SCORES
    has_gradients = runs.subject is not None and GRADIENTS[0] in runs.got
    return runs.subject.attached if has_gradients and _scores(runs) <= most else None  # type: ignore[union-attr]


def _with_two_graphs(runs: Runs, compared: dict[str, Comparison]) -> Broken | None:
    """Two forward passes, then the first one's backward pass, twice."""
    attached, problem = _attached_call(runs), runs.case.problem
    if attached is None:
        return None
    handed = Handed((*runs.tensors.inputs, runs.tensors.d_out), runs.case.layout)
    *inputs, d_out = handed.tensors
    others = Handed(make_inputs(_with_other_seed(problem), DEVICE), runs.case.layout)
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


def _with_fewer_gradients(runs: Runs, compared: dict[str, Comparison]) -> Broken | None:
    """Each input in turn requires no gradient; those of the others must be what they were."""
    attached = _attached_call(runs)
    if attached is None:
        return None
    for left_out, tensor in zip(GRADIENTS, NAMES, strict=False):
        handed = Handed((*runs.tensors.inputs, runs.tensors.d_out), runs.case.layout)
        *inputs, d_out = handed.tensors
        learning = [name for name in GRADIENTS if name != left_out]
        words = f"if {tensor} requires no gradient, another one is wrong"
        for name, gradient in attached(*inputs, learning=learning).gradients(d_out).items():
            if failure := _too_far(words, name, gradient, compared[name]):
                return failure
    return None
