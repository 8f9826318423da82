"""The report of a check as one self-contained HTML file, and as strict JSON. Needs neither torch nor triton.

The file takes its colours from the reader's browser (CSS system colours), unless a `style` gives others.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from kernels.check.cases import UPLOADED, USERS, CheckCase
from kernels.check.report_pictures import map_pictures, ulp_picture
from kernels.check.result import (
    FORMAT,
    FORMAT_VERSION,
    ULP_EDGES,
    CheckResult,
    Sensitivity,
    SensitivityPoint,
    TensorCheck,
)
from kernels.check.result_lines import number_words, told_apart
from kernels.check.summary import ORDER, VERDICT_TITLES, by_kernel, causes, hints, overall, summary
from kernels.check.variations import Determinism
from kernels.file_format import strict
from kernels.oracle.report import RULE

STYLE = """
:root { color-scheme: light dark; }
body {
  font: 15px/1.45 system-ui, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1rem;
  background: var(--background, Canvas); color: var(--text, CanvasText);
}
h1 { font-size: 1.5rem; margin: 0; }
h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; }
.verdict { font-size: 2.2rem; font-weight: 700; }
.fail { color: var(--bad, CanvasText); }
.pass { color: var(--good, CanvasText); }
td.fail { font-weight: 700; }
table { border-collapse: collapse; }
td, th { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid var(--line, GrayText); }
td:first-child, th:first-child { text-align: left; }
.wide { overflow-x: auto; }
figure { margin: 0 0 1rem; }
img {
  image-rendering: pixelated; width: 100%; max-width: 40rem; height: 16rem;
  border: 1px solid var(--line, GrayText);
}
@media (prefers-color-scheme: dark) { img { filter: invert(1); } }
.bar { fill: var(--flash, currentColor); }
.bar.naive { fill: var(--standard, currentColor); opacity: .55; }
svg text { fill: currentColor; font-size: 12px; }
pre { white-space: pre-wrap; }
"""


@dataclass(frozen=True)
class Report:
    """What is reported of one case: its verdict, and what came of varying it if that was asked for."""

    result: CheckResult
    sensitivity: Sensitivity | None = None
    determinism: Determinism | None = None

    def as_dict(self) -> dict:
        """Field names to plain values, without the maps."""
        varied = {"sensitivity": self.sensitivity, "determinism": self.determinism}
        return self.result.as_dict() | {name: value and value.as_dict() for name, value in varied.items()}


def to_json(reports: Sequence[Report], command: str = "") -> str:
    """The reports as JSON, without the maps. NaN and infinities are strings."""
    document = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "rule": RULE,
        "command": command,
        "ulp_edges": list(ULP_EDGES),
        "kernels": [
            {
                "label": found[0].label,
                "verdict": overall(found),
                "summary": summary(found),
                "causes": causes(found),
                "hints": hints(found),
            }
            for found in by_kernel([report.result for report in reports])
        ],
        "checks": [report.as_dict() for report in reports],
    }
    return json.dumps(strict(document), indent=1, allow_nan=False) + "\n"


def shell_command(case: CheckCase, kernel: str = "", file: str = "") -> str:
    """The command that repeats the check. `kernel` is the user's own file.py:function, `file` the upload."""
    problem = case.problem
    options: dict[str, str | float] = {}
    if case.kernel != UPLOADED:
        options["--kernel"] = (kernel or "file.py:function") if case.kernel in USERS else case.kernel
    if case.upload:
        options["--file"] = file or "FILE"
        if case.axes != "bhld":
            options["--file-axes"] = case.axes
    else:
        options |= {
            "--shapes": f"{problem.q_len}x{problem.kv_len}",
            "--head-dim": problem.head_dim,
            "--dtype": problem.dtype,
            "--batch": problem.batch,
            "--q-heads": problem.q_heads,
            "--kv-heads": problem.kv_heads,
            "--inputs": problem.inputs,
            "--seed": problem.seed,
        }
    options |= {
        "--mask": problem.mask,
        "--blocks": f"{problem.block_m},{problem.block_n}",
        "--repeats": case.repeats,
    }
    if case.layout != "contiguous":
        options["--layout"] = case.layout
    if case.scale is not None:
        options["--scale"] = case.scale
    if problem.mask == "window":
        options["--window"] = f"{problem.window_left},{problem.window_right}"
    words = [f"{name} {shlex.quote(str(value))}" for name, value in options.items()]
    return " ".join(["python -m kernels.check", *words, *([] if case.gradients else ["--forward"])])


def to_html(
    report: Report, style: str = "", command: str = "", all_results: Sequence[CheckResult] = ()
) -> str:
    """The report as one page that loads nothing. `style` is CSS that may set --good, --bad and others.

    With `all_results`, of which the report's is one, a table of them comes first.
    """
    result = report.result
    title = VERDICT_TITLES[result.verdict]
    body = [
        _all_cases(all_results),
        f"<h1>{escape(result.label)}</h1>",
        f'<p class="verdict {result.verdict}">{title}</p>',
        f"<p>{escape(result.reason)}.</p>",
        f"<p>Cause: {escape(result.cause)}.</p>" if result.cause else "",
        f"<pre>{escape(result.trace)}</pre>" if result.trace else "",
        *(f"<p>Found while it ran: {escape(finding.sentence)}.</p>" for finding in result.findings),
        *(f"<p>{escape(note)}</p>" for note in result.notes),
        _errors_table(result),
        f"<p>{escape(RULE)}</p>",
        *(f"<p>{escape(fact)}</p>" for fact in _facts(result)),
        _ulps(result),
        *map(map_pictures, result.maps),
        _sensitivity(report.sensitivity),
        _determinism(report.determinism),
        _table("Case", {name: str(value) for name, value in result.case.problem.as_dict().items()}),
        _table("Device", {name: str(value) for name, value in result.device.as_dict().items() if value}),
        f"<h2>Repeat it</h2><pre>{escape(command or shell_command(result.case))}</pre>",
        f"<p>Checked {escape(result.checked_at)} UTC.</p>",
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}: {escape(result.label)}</title><style>{STYLE}{style}</style>"
    )
    content = "\n".join(filter(None, body))
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{content}\n</body></html>\n'


def _all_cases(results: Sequence[CheckResult]) -> str:
    if len(results) < 2:
        return ""
    rows: list[tuple[tuple[str, ...], bool]] = []
    for result in sorted(results, key=lambda result: ORDER.index(result.verdict)):
        words = (result.label, result.case.words, VERDICT_TITLES[result.verdict], result.reason, result.cause)
        rows.append((words, result.verdict in ("pass", "invalid")))
    table = _rows(("kernel", "case", "verdict", "why", "cause"), rows)
    said = "".join(
        f"<p>{escape(found[0].label)}: {VERDICT_TITLES[overall(found)]}. {escape(summary(found))}.</p>"
        + "".join(f"<p>{escape(words[0].upper() + words[1:])}.</p>" for words in causes(found) + hints(found))
        for found in by_kernel(results)
    )
    return f"<h1>All cases</h1>{said}{table}<h2>The worst of them</h2>"


def _rows(header: tuple[str, ...], rows: Sequence[tuple[tuple[str, ...], bool]]) -> str:
    """An HTML table. A row is its cells and whether it passes."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    lines = []
    for cells, passes in rows:
        mark = "" if passes else ' class="fail"'
        lines.append("<tr>" + "".join(f"<td{mark}>{escape(cell)}</td>" for cell in cells) + "</tr>")
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


ERRORS_HEADER = (
    "",
    "verdict",
    "max error",
    "allowed",
    "mean error",
    "reference max",
    "reference mean",
    "error / reference",
    "wrong NaN/inf",
    "worst at",
)


def _errors_table(result: CheckResult) -> str:
    if not result.tensors:
        return ""
    rows = [(_error_cells(tensor), tensor.passes) for tensor in result.tensors]
    return "<h2>Errors against float64</h2>" + _rows(ERRORS_HEADER, rows)


def _error_cells(tensor: TensorCheck) -> tuple[str, ...]:
    return (
        tensor.name,
        "passes" if tensor.passes else "FAILS",
        number_words(tensor.max_error),
        number_words(tensor.tolerance),
        number_words(tensor.mean_error),
        number_words(tensor.naive_max_error),
        number_words(tensor.naive_mean_error),
        f"{tensor.ratio:.2f}",
        f"{tensor.wrong_nonfinite:,} of {tensor.elements:,}",
        "{}: {}, exact {}".format(tensor.worst, *told_apart(tensor.worst_value, tensor.exact_value)),
    )


def _facts(result: CheckResult) -> list[str]:
    facts = []
    if repeats := result.repeats:
        differing = f"not bitwise equal: {repeats.words}, by up to {number_words(repeats.largest)}"
        facts.append(f"{repeats.runs} runs: {'bitwise equal' if repeats.equal else differing}.")
    if keyless := result.keyless:
        wrong = f"{keyless.wrong_output:,} do not give 0, {keyless.wrong_lse:,} have an lse other than -inf"
        facts.append(f"{keyless.count:,} rows without a key: {'all give 0' if keyless.right else wrong}.")
    if result.interpreted:
        facts.append("Triton's interpreter ran this on the CPU: the errors are those of its arithmetic.")
    return facts


def _table(title: str, values: dict[str, str]) -> str:
    return f"<h2>{escape(title)}</h2>" + _rows((), [((name, value), True) for name, value in values.items()])


def _ulps(result: CheckResult) -> str:
    tensor = result.tensor("O")
    if tensor is None or not sum(tensor.ulps):
        return ""
    return f"<h2>Units in the last place</h2>{ulp_picture(tensor)}"


def _sensitivity(sensitivity: Sensitivity | None) -> str:
    if sensitivity is None:
        return ""
    header = ("", "max error", "allowed", "reference max", "wrong NaN/inf", "of the reference")
    parts = [f"<p>{escape(note)}</p>" for note in sensitivity.notes]
    for title, points in (("Tile sizes", sensitivity.blocks), ("Factor on the query", sensitivity.scales)):
        if points:
            rows = [(_sensitivity_cells(point), point.passes) for point in points]
            parts.append(f"<h2>{title}</h2>{_rows(header, rows)}")
    return "".join(parts)


def _determinism(determinism: Determinism | None) -> str:
    if determinism is None:
        return ""
    rows = [((each.title, each.label, each.words), each.equal) for each in determinism.variations]
    table = _rows(("what changes", "run", "result"), rows) if rows else ""
    notes = "".join(f"<p>{escape(note)}</p>" for note in determinism.notes)
    title = "<h2>Determinism and batch invariance</h2>"
    return f"{title}<p>{escape(determinism.sentence)}</p>{table}{notes}"


def _sensitivity_cells(point: SensitivityPoint) -> tuple[str, ...]:
    if point.refused:
        return (point.label, point.refused, "", "", "", "")
    return (
        point.label,
        number_words(point.max_error),
        number_words(point.tolerance),
        number_words(point.naive_max_error),
        f"{point.wrong_nonfinite:,}",
        f"{point.naive_wrong_nonfinite:,}",
    )
