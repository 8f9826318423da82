"""Results in words: one result in lines for a shell, and many in a few lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from kernels.check.case.cases import USERS
from kernels.check.report.tables import ORDER, VERDICT_WORDS, number_words
from kernels.check.result import CheckResult, Determinism, Sensitivity, TensorCheck
from kernels.sanitizer.finding import titles

VERDICT_TITLES = {verdict: words.upper() for verdict, words in VERDICT_WORDS.items()}
"""Each verdict where it stands alone."""
SHELL_WORDS = VERDICT_TITLES | {"pass": "PASS", "fail": "FAIL"}
"""How a line in a shell begins: the two common verdicts as test runners print them."""
INDENT = " " * 8
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
SHORTER_TYPE_ERROR = 0.1
"""Attention in bfloat16, gradients too, is off by at most 0.022 in the float32 cases of the battery."""


def _has_error_of_shorter_type(result: CheckResult) -> bool:
    """Whether a float32 case came to its end, and is off by about as much as a shorter type would be."""
    errors = [tensor.max_error for tensor in result.failing]
    ended = bool(errors) and not result.broken
    return ended and result.case.problem.dtype == "float32" and max(errors) < SHORTER_TYPE_ERROR


HINTS: tuple[tuple[Callable[[CheckResult], bool], str], ...] = (
    (
        lambda result: result.case.layout == "mixed",
        "the last stride of a tensor is not 1. A kernel that needs it to be 1 may declare that: "
        '"strides": "last_is_1" in its CHECK (README)',
    ),
    (
        _has_error_of_shorter_type,
        "the tensors are float32: the result has the error of a shorter type, such as float16 or TF32. A "
        'kernel that is not meant for float32 may declare that: "dtypes": ["float16", "bfloat16"] in its '
        "CHECK (README)",
    ),
)
"""Properties of a case that a kernel need not take if its file says so, and what to say if only they fail."""


def overall(results: Sequence[CheckResult]) -> str:
    """The verdict on all: "fail" or "error" if any is, else "pass" if enough cases were checked.

    "few" if some passed, but less than LEAST_CHECKED of all were checked; "invalid" if none was.
    """
    verdicts = [result.verdict for result in results]
    for verdict in ("fail", "error"):
        if verdict in verdicts:
            return verdict
    if "pass" not in verdicts:
        return "invalid"
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


def hints(results: Sequence[CheckResult]) -> list[str]:
    """What the file may declare, if the cases that fail are all of a kind that a kernel need not take."""
    failing = [result for result in results if result.verdict == "fail"]
    if len(failing) == len(results) or any(result.case.kernel not in USERS for result in failing):
        return []
    fitting = {words: sum(map(is_one, failing)) for is_one, words in HINTS}
    if sum(fitting.values()) < len(failing):
        return []
    return [f"it fails if {words}" for words, count in fitting.items() if count]


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


def result_lines(result: CheckResult, detailed: bool = True) -> str:
    """The verdict of a case and why; all tensors if `detailed`, else those that fail."""
    problem = result.case.problem
    batch = f"b{problem.batch} h{problem.q_heads}/{problem.kv_heads}"
    first = f"{SHELL_WORDS[result.verdict]:11} {result.case.words} ({batch} {problem.dtype}): {result.reason}"
    lines = [f"cause: {result.cause}"] if result.cause else []
    lines += [f"found: {finding.sentence}" for finding in result.findings]
    lines += [_tensor_line(tensor) for tensor in result.tensors if detailed or not tensor.passes]
    if result.keyless:
        lines += [result.keyless.words]
    if result.repeats and not result.repeats.equal:
        lines += [f"{result.repeats.runs} runs were not bitwise equal: {result.repeats.words}"]
    lines += [*result.trace.splitlines(), *(result.notes if detailed else ())]
    return "\n".join(filter(None, (first, indented(lines))))


def _tensor_line(tensor: TensorCheck) -> str:
    errors = f"max {number_words(tensor.max_error)}  mean {number_words(tensor.mean_error)}"
    bounds = f"reference {number_words(tensor.naive_max_error)}  allowed {number_words(tensor.tolerance)}"
    return f"{tensor.name:4} {errors}  {bounds}  {'' if tensor.passes else 'FAILS'}".rstrip()


def sensitivity_lines(sensitivity: Sensitivity) -> str:
    """The variations of tiles and scale, for a shell."""
    lines = list(sensitivity.notes)
    for words, points in (("tiles", sensitivity.blocks), ("query times", sensitivity.scales)):
        for point in points:
            errors = f"max {number_words(point.max_error)}  allowed {number_words(point.tolerance)}"
            state = point.refused or f"{errors}  {'' if point.passes else 'FAILS'}"
            lines.append(f"{words} {point.label:10} {state}".rstrip())
    return indented(lines)


def determinism_lines(determinism: Determinism) -> str:
    """The variations of batch, place and parts, for a shell."""
    lines = [f"  {each.label}: {each.words}" for each in determinism.variations]
    return indented([f"determinism: {determinism.words}", *lines, *determinism.notes])


def indented(lines: Sequence[str]) -> str:
    """Lines below that of a case or a kernel."""
    return "\n".join(f"{INDENT}{line}" for line in lines)
