"""Results in words: one result in lines for a shell, and many in a few lines."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from kernels.check.result import CheckResult, TensorCheck
from kernels.sanitizer.finding import titles

VERDICT_WORDS = {
    "pass": "PASSES",
    "fail": "FAILS",
    "invalid": "NOT CHECKED",
    "error": "NO VERDICT",
    "few": "TOO FEW",
}
"""Each verdict in words; "few" is one of many cases alone."""
SHELL_WORDS = VERDICT_WORDS | {"pass": "PASS", "fail": "FAIL"}
"""How a line in a shell begins: the two common verdicts as test runners print them."""
ORDER = ("fail", "error", "invalid", "pass")
"""Verdicts of a case, the worst first."""
NAMED_CASES, NAMED_NOTES = 5, 3
"""A summary names so many failing cases, and so many notes on the compiler."""
COMPILER_WORDS = ("Compiled, without a GPU", "Not compiled for a GPU")
"""Beginnings of the notes on the compiler."""
NOT_CHECKED = "Not part of the check: an arbitrary attn_mask, dropout, nested tensors."
NEEDS_GPU = (
    "Without a GPU programs run one after the other. Found are two that write different values to one place, "
    "and a result that depends on their order. Not checked: other races, more programs than a GPU runs at "
    "once (persistent kernels), asynchronous copies, TF32."
)
LEAST_CHECKED = 0.5
"""If a smaller share of the cases was checked, all of them together are not a pass."""


def number_words(value: float) -> str:
    """A number of a report: plain words for those that are not finite."""
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinity"
    return "NaN" if math.isnan(value) else "0" if value == 0 else f"{value:.2e}"


def overall(results: Sequence[CheckResult]) -> str:
    """The verdict on all: "fail" or "error" if any is, else "pass" if enough cases were checked.

    "few" if some passed, but less than LEAST_CHECKED of all were checked; "invalid" if none was.
    """
    verdicts = [result.verdict for result in results]
    worst = min(verdicts, key=ORDER.index, default="invalid")
    if worst in ("fail", "error") or "pass" not in verdicts:
        return worst
    return "pass" if verdicts.count("pass") >= LEAST_CHECKED * len(verdicts) else "few"


def summary(results: Sequence[CheckResult]) -> str:
    """One sentence on all results of one kernel."""
    failing, stopped, invalid, passing = (
        [result for result in results if result.verdict == verdict] for verdict in ORDER
    )
    forward_only = sum(result.tensor("dQ") is None for result in passing)
    reasons = Counter(re.split(r"[:,.](?:\s|$)", result.reason)[0] for result in invalid)
    counted = [reason if len(reasons) == 1 else f"{n} {reason}" for reason, n in reasons.most_common()]
    parts = {
        f"{len(failing)} of {len(results)} cases fail ({_named(failing)})": failing,
        f"{len(stopped)} gave no verdict ({_named(stopped)})": stopped,
        f"{len(passing)} pass{f' ({forward_only} without gradients)' if forward_only else ''}": passing,
        f"{len(invalid)} not checked ({'; '.join(counted)})": invalid,
        "too few were checked for a verdict on the kernel": overall(results) == "few",
    }
    return ", ".join(words for words, is_said in parts.items() if is_said)


def _named(results: Sequence[CheckResult]) -> str:
    named = [result.case.words for result in results[:NAMED_CASES]]
    more = len(results) - len(named)
    return "; ".join([*named, *([f"and {more} more"] if more else [])])


def causes(results: Sequence[CheckResult]) -> list[str]:
    """What was found in the failing cases, the most frequent first, each with the cases that it fits.

    Only what fits every failing case is called the cause.
    """
    failing = [result for result in results if result.verdict == "fail"]
    found: Counter[str] = Counter()
    for result in failing:
        named = [cause.sentence for cause in result.causes]
        named += [titles((finding,)) for finding in result.findings]
        found.update(list(dict.fromkeys(named)))
    said = [
        f"cause: {words}" if count == len(failing) else f"in {count} of {len(failing)} failing cases: {words}"
        for words, count in found.most_common()
    ]
    rest = sum(not (result.causes or result.findings) for result in failing)
    return [*said, f"nothing that is known fits {rest} failing cases"] if said and rest else said


def last_words(results: Sequence[CheckResult]) -> list[str]:
    """What was done besides the cases, and what this check of a user's kernel cannot tell."""
    notes = Counter(note for result in results for note in result.notes if note.startswith(COMPILER_WORDS))
    said = [f"{note} ({count} of {len(results)} cases)" for note, count in notes.most_common(NAMED_NOTES)]
    return [*said, NOT_CHECKED, *(NEEDS_GPU for result in results[:1] if result.device.backend != "cuda")]


def by_kernel(results: Sequence[CheckResult]) -> list[list[CheckResult]]:
    """The results of each kernel, in the order of the kernels' first results."""
    found: dict[str, list[CheckResult]] = {}
    for result in results:
        found.setdefault(result.case.kernel, []).append(result)
    return list(found.values())


def facts(result: CheckResult) -> list[str]:
    """What is said below the verdict of a case, besides its numbers and notes."""
    said = [f"cause: {result.cause}"] if result.cause else []
    said += [f"found: {finding.sentence}" for finding in result.findings]
    said += [result.keyless.words] if result.keyless else []
    said += [result.repeats.words] if result.repeats and not result.repeats.equal else []
    return said


def result_lines(result: CheckResult, detailed: bool = True) -> list[str]:
    """The verdict of a case and why; all tensors and notes if `detailed`, else the tensors that fail."""
    problem = result.case.problem
    batch = f"b{problem.batch} h{problem.q_heads}/{problem.kv_heads}"
    first = f"{SHELL_WORDS[result.verdict]:11} {result.case.words} ({batch} {problem.dtype}): {result.reason}"
    tensors = [_tensor_line(tensor) for tensor in result.tensors if detailed or not tensor.passes]
    notes = result.notes if detailed else ()
    return [first, *indented(*facts(result), *tensors, *result.trace.splitlines(), *notes)]


def _tensor_line(tensor: TensorCheck) -> str:
    errors = f"max {number_words(tensor.max_error)}  mean {number_words(tensor.mean_error)}"
    bounds = f"reference {number_words(tensor.naive_max_error)}  allowed {number_words(tensor.tolerance)}"
    return f"{tensor.name:4} {errors}  {bounds}  {'' if tensor.passes else 'FAILS'}".rstrip()


def indented(*lines: str) -> list[str]:
    """Lines below that of a case or a kernel."""
    return [f"        {line}" for line in lines]
