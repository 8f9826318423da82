"""Calls after the first one: the same inputs again, with gradients, and other numbers in the same tensors.

A kernel that keeps something of a call is right at first and wrong later.
"""

from __future__ import annotations

import torch

from kernels.check.layouts import Handed
from kernels.check.runs import Runs
from kernels.check.user_errors import Broken, Refused
from kernels.device.runtime import DEVICE
from kernels.oracle.report import FACTORS
from kernels.oracle.rule import Comparison, absolute_error, compare, largest_finite
from kernels.problem.inputs import make_inputs

MOST_SCORES = 2**22
"""Other numbers are tried for problems up to so many scores: float64 is computed for them once more."""


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
    try:
        return _with_other_numbers(runs)
    except (Broken, Refused) as error:
        trace = error.trace if isinstance(error, Broken) else ""
        return Broken(f"a later call, with other numbers in the same tensors, failed: {error}", trace)


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
    case, subject = runs.case, runs.subject
    problem = case.problem
    scores = problem.batch * problem.q_heads * problem.q_len * problem.kv_len
    if subject is None or case.upload or scores > MOST_SCORES:
        return None
    handed = Handed(runs.tensors.inputs, case.layout)
    first, _ = subject.forward(*handed.tensors)
    kept = first.clone()
    others = make_inputs(problem.with_(seed=problem.seed + 1), DEVICE)
    for tensor, other in zip(handed.tensors, others, strict=True):
        tensor.copy_(other)
    second, _ = subject.forward(*handed.tensors)
    if not torch.equal(first.nan_to_num(), kept.nan_to_num()):
        return Broken("its result is overwritten by the next call: both calls return the same memory")
    (exact, _), (naive, _), (in_float32, _) = runs.references(others)
    right = compare(
        second.to(exact.device),
        exact,
        naive,
        lambda: in_float32,
        FACTORS["forward"],
        largest_finite(others[2]),
    )
    words = "with other numbers in the same tensors a later call is wrong"
    return _too_far(words, "O", second, right)
