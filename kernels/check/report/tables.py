"""Results as rows of cells by column: the shell, the HTML report and the page show the same; and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from kernels.check.report.words import (
    ORDER,
    VERDICT_WORDS,
    by_kernel,
    causes,
    number_words,
    overall,
    summary,
)
from kernels.check.result import (
    FORMAT,
    FORMAT_VERSION,
    TITLES,
    ULP_EDGES,
    CheckResult,
    Determinism,
    Sensitivity,
    SensitivityPoint,
    TensorCheck,
)
from kernels.file_format import strict
from kernels.oracle.report import RULE

Row = dict[str, str]
AXES = ("batch", "head", "row", "column")
SHARE = "error / allowed"
ULP_LABELS = (*(f"≤ {edge:g}" for edge in ULP_EDGES), f"> {ULP_EDGES[-1]:g}")
"""Names of the bins of the ulp histogram."""


@dataclass(frozen=True)
class Report:
    """What is reported of one case: its verdict, and what came of varying it if that was asked for."""

    result: CheckResult
    sensitivity: Sensitivity | None = None
    determinism: Determinism | None = None


@dataclass(frozen=True)
class Table:
    """A title, rows, and whether each of them is right."""

    title: str
    rows: Sequence[Mapping[str, object]]
    right: Sequence[bool]


def tables_of(report: Report) -> Iterator[Table]:
    """Errors and ulps of the result."""
    tensors = report.result.tensors
    yield Table("Errors against float64", [*map(error_row, tensors)], [each.passes for each in tensors])
    rows = ulp_rows(report.result.tensor("O"))
    yield Table("Share of the elements of O by units in the last place", rows, [True] * len(rows))


def varied_tables(report: Report) -> Iterator[Table]:
    """What came of other tiles, other scales, and of running again."""
    if varied := report.sensitivity:
        for title, points in (("Tile sizes", varied.blocks), ("Factor on the query", varied.scales)):
            yield Table(title, [*map(point_row, points)], [point.passes for point in points])
    if compared := report.determinism:
        title = f"Determinism and batch invariance: {compared.words}"
        yield Table(title, variation_rows(compared), [each.equal for each in compared.variations])


def worst_words(tensor: TensorCheck) -> str:
    """Where the largest error of a tensor is, what the kernel gave there, and what is exact."""
    index = ", ".join(f"{axis} {number}" for axis, number in zip(AXES, tensor.worst, strict=False))
    return f"{index}: {tensor.worst_value:.9g}, exact {tensor.exact_value:.9g}"


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


def ulp_rows(tensor: TensorCheck | None) -> list[Row]:
    """Share of the elements by their error in units in the last place; none if they were not counted."""
    if tensor is None or not sum(tensor.ulps):
        return []
    of = {"this kernel": tensor.ulps, "low-precision reference": tensor.naive_ulps}
    shares = {name: [f"{count / max(sum(counts), 1):.2%}" for count in counts] for name, counts in of.items()}
    return [{"": name} | dict(zip(ULP_LABELS, each, strict=True)) for name, each in shares.items()]


def point_row(point: SensitivityPoint) -> Row:
    """The error of O with other tiles, or with a factor on the query."""
    cells = {
        "verdict": VERDICT_WORDS["pass" if point.passes else "fail"],
        "largest error": number_words(point.max_error),
        "allowed": number_words(point.tolerance),
        "reference": number_words(point.naive_max_error),
        "wrong NaN, ∞": f"{point.wrong_nonfinite:,}",
        "of the reference": f"{point.naive_wrong_nonfinite:,}",
    }
    if point.refused:
        cells = dict.fromkeys(cells, "") | {"largest error": point.refused}
    return {"variation": point.label} | cells


def variation_rows(determinism: Determinism) -> list[Row]:
    """What changed from run to run, and what came of it."""
    return [
        {"what changes": TITLES[each.kind], "run": each.label, "result": each.words}
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


def to_json(reports: Sequence[Report], command: str = "") -> str:
    """The reports as JSON, without the maps. NaN and infinities are strings."""
    kernels = [
        {
            "label": found[0].label,
            "verdict": overall(found),
            "summary": summary(found),
            "causes": causes(found),
        }
        for found in by_kernel([report.result for report in reports])
    ]
    checks = [
        report.result.as_dict()
        | msgspec.to_builtins({"sensitivity": report.sensitivity, "determinism": report.determinism})
        for report in reports
    ]
    document = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "rule": RULE,
        "command": command,
        "ulp_edges": list(ULP_EDGES),
        "kernels": kernels,
        "checks": checks,
    }
    return json.dumps(strict(document), indent=1, allow_nan=False) + "\n"
