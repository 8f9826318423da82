"""Fits the battery to a kernel that does not take all of it, by what it declares and by what it refuses."""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from kernels.check.case.cases import CheckCase
from kernels.check.case.limits import LAYOUTS_BY_STRIDES, OUTSIDE, Limits
from kernels.check.result import CheckResult
from kernels.problem import AttentionProblem

BAND_MASKS = ("causal", "full", "window")
"""What another mask becomes: the first of these that the kernel takes."""
DECLARED, REFUSED = "declared in its file", "inferred from what it refuses"
"""Where limits are from; a verdict within them says it."""
SETS = ("head_dims", "dtypes", "masks")
"""Limits that name what is accepted. Of what was refused the refused value is said: more may be accepted."""
LONGEST = 512
"""Unequal lengths become equal up to this one: the longer of two may be too long for both."""
MOST_SHIFTS = 4
"""A fitted case that is there already becomes longer, up to so often."""
MOST_SCORES = 2**18
"""A fitted case of more has one batch, or the interpreter would take long."""
LARGEST_TILE = 128
"""Lengths that such tiles divide stay so."""
ROUNDS = 4
"""Refused cases are tried again so often: each time one more property of a case can be fitted."""


def all_fitted(cases: Sequence[CheckCase], declared: Limits) -> list[CheckCase]:
    """The cases, those outside of what the kernel declares fitted to it. One that cannot be stays outside."""
    taken, found = {case for case in cases if not declared.outside(case)}, []
    for case in cases:
        found.append(_fitted(case, declared, DECLARED, taken))
        taken.add(found[-1])
    return found


def _fitted(case: CheckCase, limits: Limits, how: str, taken: Collection[CheckCase]) -> CheckCase:
    """The nearest case inside the limits that is not among `taken`; the case itself if there is none.

    `how` says where the limits are from: DECLARED or REFUSED.
    """
    outside = limits.outside(case)
    if not outside or case.problem.pattern:
        return case
    problem = case.problem
    if "head_dims" in outside:
        nearest = min(limits.head_dims, key=lambda dim: abs(dim - problem.head_dim))
        problem = problem.with_(head_dim=nearest)
    if "dtypes" in outside:
        problem = problem.with_(dtype=limits.dtypes[0])
    if "masks" in outside:
        mask = next(mask for mask in BAND_MASKS if mask in limits.masks)
        problem = problem.with_(
            mask=mask, window_right=0, window_left=20 if mask == "window" else AttentionProblem.window_left
        )
    if "gqa" in outside:
        problem = problem.with_(kv_heads=problem.q_heads)
    layout = case.layout
    if "strides" in outside:
        layout = "contiguous" if limits.strides == "contiguous" else "sliced"
    said = {
        name: f"not {words}" if how == REFUSED and name in SETS else limits.words(name)
        for name, words in outside.items()
    }
    within = (*case.within, *(f"{how}: {words}" for words in said.values()))
    scale = None if "scale" in outside else case.scale
    for shift in range(MOST_SHIFTS):
        sized = problem.with_(**_lengths(problem, limits, shift))
        sized = sized.with_(batch=1) if sized.scores > MOST_SCORES else sized
        found = replace(case, problem=sized, layout=layout, scale=scale, within=within)
        if found not in taken and not limits.outside(found):
            return found
    return case


def _lengths(problem: AttentionProblem, limits: Limits, shift: int) -> dict[str, int | str]:
    """The next lengths that the kernel takes, unequal ones in their order if it takes that."""
    multiple = limits.lengths
    q_len, kv_len = (-(-n // multiple) * multiple for n in (problem.q_len, problem.kv_len))
    step = math.lcm(multiple, math.gcd(q_len, kv_len, LARGEST_TILE))
    q_len, kv_len = (n + shift * step for n in (q_len, kv_len))
    if limits.equal_lengths or (problem.is_causal and limits.causal == "equal_lengths"):
        both = max(multiple, min(max(q_len, kv_len), LONGEST // multiple * multiple))
        return {"q_len": both, "kv_len": both}
    if q_len == kv_len:
        q_len += multiple * (problem.q_len > problem.kv_len)
        kv_len += multiple * (problem.q_len < problem.kv_len)
    if limits.more_keys:
        q_len, kv_len = sorted((q_len, kv_len))
    return {"q_len": q_len, "kv_len": kv_len}


def second_tries(results: Sequence[CheckResult]) -> dict[int, CheckCase]:
    """By its place among the results, what to try in the place of a case that was refused.

    One property is fitted: of those that no accepted case of the kernel has, that of the most refused ones.
    None if the kernel accepts no case at all.
    """
    tries: dict[int, CheckCase] = {}
    for kernel in {result.case.kernel for result in results}:
        tries |= _tries_of({n: each for n, each in enumerate(results) if each.case.kernel == kernel})
    return tries


def _tries_of(results: dict[int, CheckResult]) -> dict[int, CheckCase]:
    accepted = [result.case for result in results.values() if not (result.refused or result.stopped)]
    refused = {
        place: result.case
        for place, result in results.items()
        if result.refused and not result.refused.startswith(OUTSIDE)
    }
    of_most = lambda limits: -sum(bool(limits.outside(case)) for case in refused.values())  # noqa: E731
    found = sorted(_limits_of(accepted), key=of_most)
    taken = {result.case for result in results.values()}
    tries: dict[int, CheckCase] = {}
    for place, case in refused.items():
        limits = next((limits for limits in found if limits.outside(case)), Limits())
        again = _fitted(case, limits, REFUSED, taken)
        if again not in taken:
            taken.add(again)
            tries[place] = again
    return tries


def _limits_of(accepted: Sequence[CheckCase]) -> list[Limits]:
    """Limits of one property each that a kernel which accepts these cases may have."""
    problems = [case.problem for case in accepted]
    seen = {
        name: sorted({getattr(each, name) for each in problems}) for name in ("head_dim", "dtype", "mask")
    }
    declarations: list[dict[str, Any]] = [
        *({"lengths": multiple} for multiple in (128, 64, 32, 16)),
        {"head_dims": seen["head_dim"]},
        {"dtypes": seen["dtype"]},
        {"masks": [mask for mask in seen["mask"] if mask in BAND_MASKS]},
        {"more_keys": True},
        {"equal_lengths": True},
        {"causal": "equal_lengths"},
        {"gqa": False},
        {"scale": False},
        *({"strides": strides} for strides in LAYOUTS_BY_STRIDES),
    ]
    every = map(Limits.declared, declarations)
    return [limits for limits in every if not any(map(limits.outside, accepted))] if accepted else []
