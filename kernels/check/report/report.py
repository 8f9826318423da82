"""Results in words and in rows of cells: the shell and the page show the same."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from kernels.check.case.cases import USERS
from kernels.check.result import NOTHING_FITS, CheckResult, TensorCheck
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
NAMED_CASES, NAMED_COUNTS = 5, 3
"""A summary names so many failing cases, and so many counts of launches."""
NOT_CHECKED = (
    "Not part of the check: an arbitrary attn_mask, dropout, nested tensors, NaN in Q, K or V, autocast, "
    "several threads, and results of more than 2^31 elements, whose offsets an int32 does not hold."
)
NEEDS_GPU = (
    "Without a GPU programs run one after the other. Found are two that write different values to one place, "
    "and a result that depends on their order. Not checked: whether Triton compiles it for a GPU, other "
    "races, more programs than a GPU runs at once (persistent kernels), asynchronous copies, TF32, offsets "
    "past 2^31 in Q, K, V and dO."
)
LEAST_CHECKED = 0.5
"""If a smaller share of the cases was checked, all of them together are not a pass."""
Row = dict[str, str]
SHARE = "error / allowed"


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


def outcome(result: CheckResult) -> str:
    """What a test runner calls the verdict: "" for a pass, "failure", "error", or "skipped"."""
    if result.verdict == "invalid":
        return "error" if result.ended else "skipped"
    return {"pass": "", "fail": "failure", "error": "error"}[result.verdict]


def summary(results: Sequence[CheckResult]) -> str:
    failing, stopped, invalid, passing = (
        [result for result in results if result.verdict == verdict] for verdict in ORDER
    )
    forward_only = sum(result.tensor("dQ") is None for result in passing)
    reasons = Counter(re.split(r"[:,.](?:\s|$)", result.reason)[0] for result in invalid)
    counted = [reason if len(reasons) == 1 else f"{n} {reason}" for reason, n in reasons.most_common()]
    seeds = ", ".join(str(n) for n in sorted({result.case.problem.seed for result in results}) if n)
    parts = {
        f"{len(failing)} of {len(results)} cases fail ({_named(failing)})": failing,
        f"{len(stopped)} gave no verdict ({_named(stopped)})": stopped,
        f"{len(passing)} pass{f' ({forward_only} without gradients)' if forward_only else ''}": passing,
        f"{len(invalid)} not checked ({'; '.join(counted)})": invalid,
        "too few were checked for a verdict on the kernel": overall(results) == "few",
        **{f"within limits {where} ({'; '.join(words)})": True for where, words in _limits(results).items()},
        f"seed {seeds}": seeds,
    }
    return ", ".join(words for words, is_said in parts.items() if is_said)


def _limits(results: Sequence[CheckResult]) -> dict[str, list[str]]:
    """The limits of the kernel to which cases that ran were fitted, by where they are from."""
    found: dict[str, list[str]] = {}
    ran = (result for result in results if not result.refused)
    for within in dict.fromkeys(each for result in ran for each in result.case.within):
        where, _, words = within.partition(": ")
        found.setdefault(where, []).append(words)
    return found


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
        named += [titles((finding,)) for finding in result.faults]
        found.update(list(dict.fromkeys(named)))
    said = [
        f"cause: {words}" if count == len(failing) else f"in {count} of {len(failing)} failing cases: {words}"
        for words, count in found.most_common()
    ]
    rest = sum(result.unexplained for result in failing)
    return [*said, f"{NOTHING_FITS} {rest} of {len(failing)} failing cases"] if rest else said


def last_words(results: Sequence[CheckResult]) -> list[str]:
    """What was done besides the cases, and what this check of a user's kernel cannot tell."""
    counts = Counter(result.computed_by for result in results if result.computed_by)
    said = [f"{each} ({count} of {len(results)} cases)" for each, count in counts.most_common(NAMED_COUNTS)]
    if results:
        longest = (max(getattr(each.case.problem, n) for each in results) for n in ("q_len", "kv_len"))
        said.append("The longest cases have {:,} queries and {:,} keys.".format(*longest))
    return [*said, NOT_CHECKED, *(NEEDS_GPU for result in results[:1] if result.device.backend != "cuda")]


def summary_lines(results: Sequence[CheckResult]) -> list[str]:
    """The verdict on all results of a kernel, and what the failing ones have in common."""
    of_user = last_words(results) if results[0].case.kernel in USERS else []
    first = f"{SHELL_WORDS[overall(results)]:11} {results[0].label}: {summary(results)}"
    return [first, *indented(*causes(results), *of_user)]


def by_kernel(results: Sequence[CheckResult]) -> list[list[CheckResult]]:
    """The results of each kernel, in the order of the kernels' first results."""
    found: dict[str, list[CheckResult]] = {}
    for result in results:
        found.setdefault(result.case.kernel, []).append(result)
    return list(found.values())


def facts(result: CheckResult, detailed: bool = True) -> list[str]:
    """What is said below the verdict of a case, besides its numbers and notes.

    That runs are equal is said only if `detailed`.
    """
    cause = result.cause_or_none_known
    said = [f"cause: {cause}"] if cause else []
    said += [f"found: {finding.sentence}" for finding in result.findings]
    said += [result.computed_by] if detailed and result.computed_by else []
    if (repeats := result.repeats) and (not repeats.equal or (detailed and repeats.runs > 1)):
        said.append(repeats.words)
    return said


def result_lines(result: CheckResult, detailed: bool = True) -> list[str]:
    """The verdict of a case and why; all tensors and notes if `detailed`, else the tensors that fail."""
    problem = result.case.problem
    heads, seed = result.case.heads_words, f" seed {problem.seed}" if problem.seed else ""
    case = f"{result.case.words} ({heads} {problem.dtype}{seed})"
    first = f"{SHELL_WORDS[result.verdict]:11} {case}: {result.reason}"
    tensors = [_tensor_line(tensor) for tensor in result.tensors if detailed or not tensor.passes]
    notes = result.notes if detailed else ()
    return [first, *indented(*facts(result, detailed), *tensors, *result.trace.splitlines(), *notes)]


def _tensor_line(tensor: TensorCheck) -> str:
    errors = f"max {number_words(tensor.max_error)}  mean {number_words(tensor.mean_error)}"
    bounds = f"reference {number_words(tensor.naive_max_error)}  allowed {number_words(tensor.tolerance)}"
    return f"{tensor.name:4} {errors}  {bounds}  {'' if tensor.passes else 'FAILS'}".rstrip()


def indented(*lines: str) -> list[str]:
    return [f"        {line}" for line in lines]


def case_row(result: CheckResult) -> dict[str, str | int | float | None]:
    problem, repeats = result.case.problem, result.repeats
    return {
        "verdict": VERDICT_WORDS[result.verdict],
        "kernel": result.label,
        "query": problem.q_len,
        "key": problem.kv_len,
        "head_dim": problem.head_dim,
        "dtype": problem.dtype,
        "mask": problem.mask,
        "more": result.case.more_words,
        SHARE: result.worst_share if result.tensors else None,
        "repeated": "" if repeats is None else "equal" if repeats.equal else "differs",
        "why": result.reason,
        "cause": result.cause,
    }


def side_by_side(of_kernels: Sequence[Sequence[CheckResult]]) -> list[Row]:
    """A row per case with the verdicts of the kernels: several of one name have numbers."""
    labels = [results[0].label for results in of_kernels if results]
    labels = [f"{label} ({n})" if labels.count(label) > 1 else label for n, label in enumerate(labels, 1)]
    rows: dict[str, Row] = {}
    for label, results in zip(labels, of_kernels, strict=True):
        for result in results:
            share = result.worst_share
            error = f"{share:,.0f}" if 100 <= share < math.inf else f"{share:.2g}"
            words = result.case.words
            row = rows.setdefault(words, {"case": words, **dict.fromkeys(labels, "")})
            row[label] = f"{result.verdict} {error}" if result.tensors else result.verdict
    return list(rows.values())


def table_text(rows: Sequence[Mapping[str, object]]) -> str:
    """The rows below their columns, in columns of equal width; "" without rows."""
    lines = [[*rows[0]], *([*map(str, row.values())] for row in rows)] if rows else []
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    return "\n".join("  ".join(line).rstrip() for line in padded)
