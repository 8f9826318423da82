"""A result as lines of text, for a shell."""

from __future__ import annotations

import math

from kernels.check.result import CheckResult, Sensitivity, TensorCheck
from kernels.check.summary import VERDICT_TITLES

INDENT = " " * 8
WORDS = VERDICT_TITLES | {"pass": "PASS", "fail": "FAIL"}
"""How a line in a shell begins: the two common verdicts as test runners print them."""


def number_words(value: float) -> str:
    """A number of a report: plain words for those that are not finite."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinity"
    return "0" if value == 0 else f"{value:.2e}"


def told_apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to see that they differ; at least three."""
    for digits in range(3, 18):
        words = [
            f"{value:.{digits}g}" if math.isfinite(value) else number_words(value) for value in (one, other)
        ]
        if words[0] != words[1] or one == other:
            break
    return words[0], words[1]


def result_lines(result: CheckResult, detailed: bool = True) -> str:
    """The verdict of a case and why; all tensors if `detailed`, else those that fail."""
    problem = result.case.problem
    batch = f"b{problem.batch} h{problem.q_heads}/{problem.kv_heads}"
    first = f"{WORDS[result.verdict]:11} {result.case.words} ({batch} {problem.dtype}): {result.reason}"
    lines = [f"cause: {result.cause}"] if result.cause else []
    lines += [f"found: {finding.sentence}" for finding in result.findings]
    lines += [_tensor_line(tensor) for tensor in result.tensors if detailed or not tensor.passes]
    if result.keyless:
        count = max(result.keyless.wrong_output, result.keyless.wrong_lse)
        wrong = f"{count:,} of them do not give 0 and lse -inf"
        state = "all give 0 and lse -inf" if result.keyless.right else wrong
        lines += [f"{result.keyless.count:,} rows see no key: {state}"]
    if result.repeats and not result.repeats.equal:
        lines += [f"{result.repeats.runs} runs were not bitwise equal: {result.repeats.words}"]
    lines += [*result.trace.splitlines(), *(result.notes if detailed else ())]
    return "\n".join([first, *(f"{INDENT}{line}" for line in lines)])


def _tensor_line(tensor: TensorCheck) -> str:
    errors = f"max {number_words(tensor.max_error)}  mean {number_words(tensor.mean_error)}"
    bounds = f"reference {number_words(tensor.naive_max_error)}  allowed {number_words(tensor.tolerance)}"
    return f"{tensor.name:4} {errors}  {bounds}  {'' if tensor.passes else 'FAILS'}".rstrip()


def sensitivity_lines(sensitivity: Sensitivity) -> str:
    """The variations of tiles and scale."""
    lines = list(sensitivity.notes)
    for words, points in (("tiles", sensitivity.blocks), ("query times", sensitivity.scales)):
        for point in points:
            errors = f"max {number_words(point.max_error)}  allowed {number_words(point.tolerance)}"
            state = point.refused or f"{errors}  {'' if point.passes else 'FAILS'}"
            lines.append(f"{words} {point.label:10} {state}".rstrip())
    return "\n".join(f"{INDENT}{line}" for line in lines)
