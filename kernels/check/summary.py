"""Many checks in a few lines: what failed, where, and why; several kernels side by side."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence

from kernels.check.cases import USERS
from kernels.check.result import CheckResult
from kernels.sanitizer.finding import titles

ORDER = ("fail", "error", "invalid", "pass")
"""Verdicts, the worst first."""
VERDICT_WORDS = {
    "pass": "passes",
    "fail": "FAILS",
    "invalid": "not checked",
    "error": "no verdict",
    "few": "too few",
}
"""Each verdict as the cell of a table; "few" is one of many cases alone."""
VERDICT_TITLES = {verdict: words.upper() for verdict, words in VERDICT_WORDS.items()}
"""Each verdict where it stands alone."""
NAMED_NOTES = 3
COMPILER_WORDS = ("Compiled, without a GPU", "Not compiled for a GPU")
"""Beginnings of the notes on the compiler."""
NOT_CHECKED = "Not part of the check: an arbitrary attn_mask, dropout, nested tensors."
NEEDS_GPU = (
    "Without a GPU programs run one after the other. Found are two that write different values to one place, "
    "and a result that depends on their order. Not checked: other races, more programs than a GPU runs at "
    "once (persistent kernels), asynchronous copies, TF32."
)
LEAST_CHECKED = 0.5
"""If a smaller share of the cases was checked, all of them together are no pass."""
SHORTER_TYPE_ERROR = 0.1
"""Attention in bfloat16, gradients too, is off by at most 0.022 in the float32 cases of the battery."""


def _has_error_of_shorter_type(result: CheckResult) -> bool:
    """Whether a float32 case came to its end, and is off by about as much as a shorter type would be."""
    errors = [tensor.max_error for tensor in result.tensors if not tensor.passes]
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
NAMED_CASES = 5
"""A summary names so many failing cases, and counts the others."""


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
    by_verdict = {verdict: [r for r in results if r.verdict == verdict] for verdict in ORDER}
    counts = {verdict: len(found) for verdict, found in by_verdict.items()}
    said = [
        f"{counts['fail']} of {len(results)} cases fail ({_cases(by_verdict['fail'])})"
        if counts["fail"]
        else "",
        f"{counts['error']} gave no verdict ({_cases(by_verdict['error'])})" if counts["error"] else "",
        f"{_passes(results, counts['pass'])}{_without_gradients(by_verdict['pass'])}"
        if counts["pass"]
        else "",
        f"{counts['invalid']} not checked ({_reasons(by_verdict['invalid'])})" if counts["invalid"] else "",
    ]
    return ", ".join(filter(None, said))


def _passes(results: Sequence[CheckResult], count: int) -> str:
    verb = "passes" if count == 1 else "pass"
    if overall(results) == "few":
        return f"only {count} of {len(results)} cases {verb}, too few for a verdict on the kernel"
    return f"{count} {verb}"


def _without_gradients(passing: Sequence[CheckResult]) -> str:
    """Passes whose gradients nobody judged are not the same as passes."""
    count = sum(result.tensor("dQ") is None for result in passing)
    if not count:
        return ""
    return " without gradients" if count == len(passing) else f" ({count} of them without gradients)"


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
    said = []
    for words, count in found.most_common():
        fits = f"in {count} of {len(failing)} failing cases"
        said.append(f"cause: {words}" if count == len(failing) else f"{fits}: {words}")
    explained = sum(bool(result.causes or result.findings) for result in failing)
    if said and explained < len(failing):
        rest = len(failing) - explained
        said.append(f"nothing that is known fits the other {rest} failing case{'s' if rest > 1 else ''}")
    return said


def hints(results: Sequence[CheckResult]) -> list[str]:
    """What the file may declare, if the cases that fail are all of a kind that a kernel need not take."""
    failing = [result for result in results if result.verdict == "fail"]
    if len(failing) == len(results) or any(result.case.kernel not in USERS for result in failing):
        return []
    fitting = {words: [result for result in failing if is_one(result)] for is_one, words in HINTS}
    if sum(map(len, fitting.values())) < len(failing):
        return []
    return [f"it fails if {words}" for words, found in fitting.items() if found]


def _cases(results: Sequence[CheckResult]) -> str:
    named = [result.case.words for result in results[:NAMED_CASES]]
    more = len(results) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more else "")


def _reasons(results: Sequence[CheckResult]) -> str:
    found = Counter(re.split(r"[:,.](?:\s|$)", result.reason)[0] for result in results)
    return "; ".join(
        f"{count} {reason}" if len(found) > 1 else reason for reason, count in found.most_common()
    )


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


def side_by_side(of_kernels: Sequence[Sequence[CheckResult]]) -> list[list[str]]:
    """A table: the first row names the kernels, each further row is a case with the verdicts."""
    header = ["case", *(results[0].label for results in of_kernels if results)]
    rows: dict[str, dict[int, str]] = {}
    for column, results in enumerate(of_kernels):
        for result in results:
            error = f" {_share_words(result.worst_share)}" if result.tensors else ""
            rows.setdefault(result.case.words, {})[column] = f"{result.verdict}{error}"
    return [
        header,
        *([words, *(found.get(i, "") for i in range(len(header) - 1))] for words, found in rows.items()),
    ]


def _share_words(share: float) -> str:
    return f"{share:,.0f}" if 100 <= share < math.inf else f"{share:.2g}"


def table_text(rows: list[list[str]]) -> str:
    """The table in columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
