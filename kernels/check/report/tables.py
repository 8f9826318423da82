"""Results as rows of cells by column: the shell, the HTML report and the page show the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from kernels.check.result import ULP_EDGES, CheckResult, Determinism, SensitivityPoint, TensorCheck

Row = dict[str, str]
VERDICT_WORDS = {
    "pass": "passes",
    "fail": "FAILS",
    "invalid": "not checked",
    "error": "no verdict",
    "few": "too few",
}
"""Each verdict as the cell of a table; "few" is one of many cases alone."""
ORDER = ("fail", "error", "invalid", "pass")
"""Verdicts of a case, the worst first."""
AXES = ("batch", "head", "row", "column")
SHARE = "error / allowed"


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


def worst_words(tensor: TensorCheck) -> str:
    """Where the largest error of a tensor is, what the kernel gave there, and what is exact."""
    index = ", ".join(f"{axis} {number}" for axis, number in zip(AXES, tensor.worst, strict=False))
    value, exact = told_apart(tensor.worst_value, tensor.exact_value)
    return f"{index}: {value}, exact {exact}"


def error_row(tensor: TensorCheck, number: Callable[[float], str] = number_words) -> Row:
    """The errors of one tensor; `number` writes them."""
    return {
        "tensor": tensor.name,
        "verdict": VERDICT_WORDS["pass" if tensor.passes else "fail"],
        "largest error": number(tensor.max_error),
        "allowed": number(tensor.tolerance),
        "mean error": number(tensor.mean_error),
        "reference": tensor.reference,
        "its largest": number(tensor.naive_max_error),
        "its mean": number(tensor.naive_mean_error),
        "error / reference": f"{tensor.ratio:.2f}",
        "wrong NaN, ∞": f"{tensor.wrong_nonfinite:,} of {tensor.elements:,}",
        "worst at": worst_words(tensor),
    }


def ulp_labels() -> list[str]:
    """Names of the bins of the ulp histogram."""
    edges = [f"{edge:g}" for edge in ULP_EDGES]
    return [*(f"≤ {edge}" for edge in edges), f"> {edges[-1]}"]


def ulp_rows(tensor: TensorCheck | None) -> list[Row]:
    """Share of the elements by their error in units in the last place; none if they were not counted."""
    if tensor is None or not sum(tensor.ulps):
        return []
    of = {"this kernel": tensor.ulps, "low-precision reference": tensor.naive_ulps}
    return [
        {"": name}
        | {
            label: f"{count / max(sum(counts), 1):.2%}"
            for label, count in zip(ulp_labels(), counts, strict=True)
        }
        for name, counts in of.items()
    ]


def point_row(point: SensitivityPoint) -> Row:
    """The error of O with other tiles, or with a factor on the query."""
    ran = not point.refused
    return {
        "variation": point.label,
        "largest error": number_words(point.max_error) if ran else point.refused,
        "allowed": number_words(point.tolerance) if ran else "",
        "reference": number_words(point.naive_max_error) if ran else "",
        "wrong NaN, ∞": f"{point.wrong_nonfinite:,}" if ran else "",
        "of the reference": f"{point.naive_wrong_nonfinite:,}" if ran else "",
    }


def variation_rows(determinism: Determinism) -> list[Row]:
    """What changed from run to run, and what came of it."""
    return [
        {"what changes": each.title, "run": each.label, "result": each.words}
        for each in determinism.variations
    ]


def worst_first(results: Sequence[CheckResult]) -> list[CheckResult]:
    """Failures first, then those with the largest share of the allowed error."""
    return sorted(results, key=lambda result: (ORDER.index(result.verdict), -result.worst_share))


def case_row(result: CheckResult) -> dict[str, str | int | float | None]:
    """One of many cases."""
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
            cell = f"{result.verdict} {error}" if result.tensors else result.verdict
            words = result.case.words
            rows.setdefault(words, {"case": words, **dict.fromkeys(labels, "")})[label] = cell
    return list(rows.values())


def table_text(rows: Sequence[Row]) -> str:
    """The rows below their columns, in columns of equal width."""
    lines = [[*rows[0]], *([*row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
