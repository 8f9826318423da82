"""Many checks in a few lines: what failed, where, and why; several kernels side by side."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from kernels.check.result import CheckResult

ORDER = ("fail", "error", "invalid", "pass")
"""Verdicts, the worst first."""
NAMED_CASES = 5
"""A summary names so many failing cases, and counts the others."""


def overall(results: Sequence[CheckResult]) -> str:
    """The verdict on all: "fail" or "error" if any is, else "pass" if any passed, else "invalid"."""
    verdicts = {result.verdict for result in results}
    return next((verdict for verdict in ("fail", "error", "pass") if verdict in verdicts), "invalid")


def summary(results: Sequence[CheckResult]) -> str:
    """One sentence on all results of one kernel."""
    by_verdict = {verdict: [r for r in results if r.verdict == verdict] for verdict in ORDER}
    counts = {verdict: len(found) for verdict, found in by_verdict.items()}
    said = [
        f"{counts['fail']} of {len(results)} cases fail ({_cases(by_verdict['fail'])})"
        if counts["fail"]
        else "",
        f"{counts['error']} gave no verdict ({_cases(by_verdict['error'])})" if counts["error"] else "",
        f"{counts['pass']} {'passes' if counts['pass'] == 1 else 'pass'}" if counts["pass"] else "",
        f"{counts['invalid']} not checked ({_reasons(by_verdict['invalid'])})" if counts["invalid"] else "",
    ]
    return ", ".join(filter(None, said))


def causes(results: Sequence[CheckResult]) -> list[str]:
    """The causes that were found, the most frequent first, with the number of cases that each explains."""
    failing = [result for result in results if result.verdict == "fail"]
    found = Counter(cause.sentence for result in failing for cause in result.causes)
    return [f"{cause} ({count} of {len(failing)} failing cases)" for cause, count in found.most_common()]


def _cases(results: Sequence[CheckResult]) -> str:
    named = [result.case.words for result in results[:NAMED_CASES]]
    more = len(results) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more else "")


def _reasons(results: Sequence[CheckResult]) -> str:
    found = Counter(re.split("[:,.]", result.refused)[0] for result in results)
    return "; ".join(
        f"{count} {reason}" if len(found) > 1 else reason for reason, count in found.most_common()
    )


def side_by_side(by_kernel: Sequence[Sequence[CheckResult]]) -> list[list[str]]:
    """A table: the first row names the kernels, each further row is a case with the verdicts."""
    header = ["case", *(results[0].label for results in by_kernel if results)]
    rows: dict[str, dict[int, str]] = {}
    for column, results in enumerate(by_kernel):
        for result in results:
            share = max((tensor.share for tensor in result.tensors), default=0.0)
            error = f" {_share_words(share)}" if result.tensors else ""
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
