"""The report of a check as one self-contained HTML file, and as strict JSON. Needs neither torch nor triton.

The file takes its colours from the reader's browser (CSS system colours), unless a `style` gives others.
"""

from __future__ import annotations

import json
import math
import shlex
from html import escape

from kernels.check.cases import UPLOADED, USER, CheckCase
from kernels.check.report_pictures import map_pictures, ulp_picture
from kernels.check.result import (
    FORMAT,
    FORMAT_VERSION,
    ULP_EDGES,
    CheckResult,
    Sensitivity,
    SensitivityPoint,
    TensorCheck,
    strict,
)
from kernels.oracle.report import RULE

VERDICTS = {"pass": "PASSES", "fail": "FAILS", "invalid": "NOT CHECKED"}

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


def to_json(results: list[CheckResult], sensitivities: list[Sensitivity | None], command: str = "") -> str:
    """The results as JSON, without the maps. NaN and infinities are strings."""
    checks = [
        result.as_dict() | {"sensitivity": sensitivity.as_dict() if sensitivity else None}
        for result, sensitivity in zip(results, sensitivities, strict=True)
    ]
    document = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "rule": RULE,
        "command": command,
        "ulp_edges": list(ULP_EDGES),
        "checks": checks,
    }
    return json.dumps(strict(document), indent=1, allow_nan=False) + "\n"


def shell_command(case: CheckCase, kernel: str = "", file: str = "") -> str:
    """The command that repeats the check. `kernel` is the user's own file.py:function, `file` the upload."""
    problem = case.problem
    options: dict[str, str | int] = {}
    if case.kernel != UPLOADED:
        options["--kernel"] = (kernel or "file.py:function") if case.kernel == USER else case.kernel
    if case.upload:
        options["--file"] = file or "FILE"
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
    if problem.mask == "window":
        options["--window"] = f"{problem.window_left},{problem.window_right}"
    words = [f"{name} {shlex.quote(str(value))}" for name, value in options.items()]
    return " ".join(["python -m kernels.check", *words, *([] if case.gradients else ["--forward"])])


def to_html(
    result: CheckResult, sensitivity: Sensitivity | None = None, style: str = "", command: str = ""
) -> str:
    """The report as one page that loads nothing. `style` is CSS that may set --good, --bad and others."""
    body = [
        f"<h1>{escape(result.label)}</h1>",
        f'<p class="verdict {result.verdict}">{VERDICTS[result.verdict]}</p>',
        f"<p>{escape(result.reason)}.</p>",
        *(f"<p>{escape(note)}</p>" for note in result.notes),
        _errors_table(result),
        f"<p>{escape(RULE)}</p>",
        *(f"<p>{escape(fact)}</p>" for fact in _facts(result)),
        _ulps(result),
        *map(map_pictures, result.maps),
        _sensitivity(sensitivity),
        _table("Case", {name: str(value) for name, value in result.case.problem.as_dict().items()}),
        _table("Device", {name: str(value) for name, value in result.device.as_dict().items() if value}),
        f"<h2>Repeat it</h2><pre>{escape(command or shell_command(result.case))}</pre>",
        f"<p>Checked {escape(result.checked_at)} UTC.</p>",
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{VERDICTS[result.verdict]}: {escape(result.label)}</title><style>{STYLE}{style}</style>"
    )
    content = "\n".join(filter(None, body))
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{content}\n</body></html>\n'


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.2e}" if math.isfinite(value) else str(value)


def _rows(header: tuple[str, ...], rows: list[tuple[tuple[str, ...], bool]]) -> str:
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
    "ratio",
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
        _number(tensor.max_error),
        _number(tensor.tolerance),
        _number(tensor.mean_error),
        _number(tensor.naive_max_error),
        _number(tensor.naive_mean_error),
        f"{tensor.ratio:.2f}",
        f"{tensor.wrong_nonfinite:,} of {tensor.elements:,}",
        f"{tensor.worst}: {_number(tensor.worst_value)}, exact {_number(tensor.exact_value)}",
    )


def _facts(result: CheckResult) -> list[str]:
    facts = []
    if repeats := result.repeats:
        differing = f"not bitwise equal: {repeats.differing}, by up to {_number(repeats.largest)}"
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


def _sensitivity_cells(point: SensitivityPoint) -> tuple[str, ...]:
    if point.refused:
        return (point.label, point.refused, "", "", "", "")
    return (
        point.label,
        _number(point.max_error),
        _number(point.tolerance),
        _number(point.naive_max_error),
        f"{point.wrong_nonfinite:,}",
        f"{point.naive_wrong_nonfinite:,}",
    )
