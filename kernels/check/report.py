"""The report of a check as one self-contained HTML file, and as strict JSON. Needs neither torch nor triton.

The file takes its colours from the reader's browser (CSS system colours), unless a `style` gives others.
"""

from __future__ import annotations

import base64
import json
import math
import struct
import zlib
from html import escape

import numpy as np

from kernels.check.cases import UPLOADED, USER, CheckCase
from kernels.check.result import (
    FORMAT,
    FORMAT_VERSION,
    ULP_EDGES,
    CheckResult,
    ErrorMap,
    Sensitivity,
    SensitivityPoint,
    TensorCheck,
    strict,
)

RULE = (
    "FlashAttention's own rule (Dao-AILab/flash-attention, tests/test_flash_attn.py): the largest error against float64 may be at most twice "
    "that of naive attention computed in the type of the inputs, for gradients three times, plus the rounding of values of this size; "
    "for lse, twice the error of float32 plus four roundings."
)
MAP_TITLES = {
    "O": "O: rows of the query, columns of head_dim",
    "weights": "Weight of each group of key tiles: rows of the query, keys",
}
VERDICTS = {"pass": "PASSES", "fail": "FAILS", "invalid": "NOT CHECKED"}

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1rem; background: var(--background, Canvas);
  color: var(--text, CanvasText); }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; }
.verdict { font-size: 2.2rem; font-weight: 700; } .fail { color: var(--bad, CanvasText); } .pass { color: var(--good, CanvasText); }
td.fail { font-weight: 700; }
table { border-collapse: collapse; } td, th { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid var(--line, GrayText); }
td:first-child, th:first-child { text-align: left; }
.wide { overflow-x: auto; }
figure { margin: 0 0 1rem; } img { image-rendering: pixelated; width: 100%; max-width: 40rem; height: 16rem;
  border: 1px solid var(--line, GrayText); }
@media (prefers-color-scheme: dark) { img { filter: invert(1); } }
.bar { fill: var(--flash, currentColor); } .bar.naive { fill: var(--standard, currentColor); opacity: .55; }
svg text { fill: currentColor; font-size: 12px; }
pre { white-space: pre-wrap; }
"""


def to_json(results: list[CheckResult], sensitivities: list[Sensitivity | None], command: str = "") -> str:
    """Every number behind the verdicts, without the maps; NaN and infinities as strings."""
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
    """The command that repeats the check; `kernel` is the user's own, `file` the name of an upload."""
    problem = case.problem
    parts = [
        "python -m kernels.check",
        f"--kernel {kernel or 'file.py:function'}" if case.kernel == USER else f"--kernel {case.kernel}",
    ]
    if case.kernel == UPLOADED:
        parts = parts[:1]
    if case.upload:
        parts += [f"--file {file or 'FILE'}"]
    else:
        parts += [
            f"--shapes {problem.q_len}x{problem.kv_len}",
            f"--head-dim {problem.head_dim}",
            f"--dtype {problem.dtype}",
        ]
        parts += [
            f"--batch {problem.batch}",
            f"--q-heads {problem.q_heads}",
            f"--kv-heads {problem.kv_heads}",
        ]
        parts += [f"--inputs {problem.inputs}", f"--seed {problem.seed}"]
    parts += [
        f"--mask {problem.mask}",
        f"--blocks {problem.block_m},{problem.block_n}",
        f"--repeats {case.repeats}",
    ]
    if problem.mask == "window":
        parts.append(f"--window {problem.window_left},{problem.window_right}")
    return " ".join([*parts, *(["--forward"] if not case.gradients else [])])


def to_html(
    result: CheckResult, sensitivity: Sensitivity | None = None, style: str = "", command: str = ""
) -> str:
    """The whole report as one page that loads nothing. `style` is CSS that sets --good, --bad, --text and the like on :root."""
    body = [
        f"<h1>{escape(result.label)}</h1>",
        f'<p class="verdict {result.verdict}">{VERDICTS[result.verdict]}</p>',
        f"<p>{escape(result.reason)}.</p>",
        *(f"<p>{escape(note)}</p>" for note in result.notes),
        _errors_table(result),
        f"<p>{escape(RULE)}</p>",
        _facts(result),
        _ulps(result),
        *(_map(found) for found in result.maps),
        _sensitivity(sensitivity),
        _table("Case", {name: str(value) for name, value in result.case.problem.as_dict().items()}),
        _table("Device", {name: str(value) for name, value in result.device.as_dict().items() if value}),
        f"<h2>Repeat it</h2><pre>{escape(command or shell_command(result.case))}</pre>",
        f"<p>Checked {escape(result.checked_at)} UTC.</p>",
    ]
    title = f"{VERDICTS[result.verdict]}: {result.label}"
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
    content = "\n".join(filter(None, body))
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}{style}</style></head>\n<body>\n{content}\n</body></html>\n'


# --- tables ----------------------------------------------------------------------------------------------------------


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.2e}" if math.isfinite(value) else str(value)


def _rows(header: tuple[str, ...], rows: list[tuple[tuple[str, ...], bool]]) -> str:
    """An HTML table; a row is its cells and whether it passes."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    lines = []
    for cells, passes in rows:
        mark = "" if passes else ' class="fail"'
        lines.append("<tr>" + "".join(f"<td{mark}>{escape(cell)}</td>" for cell in cells) + "</tr>")
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def _errors_table(result: CheckResult) -> str:
    if not result.tensors:
        return ""
    header = (
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
    return "<h2>Errors against float64</h2>" + _rows(
        header, [(_error_cells(tensor), tensor.passes) for tensor in result.tensors]
    )


def _error_cells(tensor: TensorCheck) -> tuple[str, ...]:
    numbers = (
        tensor.max_error,
        tensor.tolerance,
        tensor.mean_error,
        tensor.naive_max_error,
        tensor.naive_mean_error,
    )
    where = f"{tensor.worst}: {_number(tensor.worst_value)}, exact {_number(tensor.exact_value)}"
    return (
        tensor.name, "passes" if tensor.passes else "FAILS", *(_number(number) for number in numbers), f"{tensor.ratio:.2f}",
        f"{tensor.wrong_nonfinite:,} of {tensor.elements:,}", where,
    )  # fmt: skip


def _facts(result: CheckResult) -> str:
    lines = []
    if result.repeats:
        unequal = f"not bitwise equal: {result.repeats.differing}, largest {_number(result.repeats.largest)}"
        same = "bitwise equal" if result.repeats.equal else unequal
        lines.append(f"{result.repeats.runs} runs: {same}.")
    if result.keyless:
        right = (
            "all give 0"
            if result.keyless.right
            else f"{result.keyless.wrong_output:,} do not give 0, {result.keyless.wrong_lse:,} lse not -inf"
        )
        lines.append(f"{result.keyless.count:,} rows without a key: {right}.")
    if result.interpreted:
        lines.append("Run by Triton's interpreter on the CPU: the numbers are those of its arithmetic.")
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def _table(title: str, values: dict[str, str]) -> str:
    return f"<h2>{escape(title)}</h2>" + _rows((), [((name, value), True) for name, value in values.items()])


def _sensitivity(sensitivity: Sensitivity | None) -> str:
    if sensitivity is None:
        return ""
    header = ("", "max error", "allowed", "reference max", "wrong NaN/inf", "of the reference")

    def cells(point: SensitivityPoint) -> tuple[str, ...]:
        if point.refused:
            return (point.label, point.refused, "", "", "", "")
        errors = (point.max_error, point.tolerance, point.naive_max_error)
        return (
            point.label,
            *map(_number, errors),
            f"{point.wrong_nonfinite:,}",
            f"{point.naive_wrong_nonfinite:,}",
        )

    parts = [f"<p>{escape(note)}</p>" for note in sensitivity.notes]
    for title, points in (("Tile sizes", sensitivity.blocks), ("Factor on the query", sensitivity.scales)):
        if points:
            parts.append(
                f"<h2>{title}</h2>" + _rows(header, [(cells(point), point.passes) for point in points])
            )
    return "".join(parts)


# --- pictures --------------------------------------------------------------------------------------------------------


def ulp_labels() -> list[str]:
    """Names of the bins of the ulp histogram."""
    edges = [f"{edge:g}" for edge in ULP_EDGES]
    return [f"≤ {edges[0]}", *(f"≤ {edge}" for edge in edges[1:]), f"> {edges[-1]}"]


def _ulps(result: CheckResult) -> str:
    tensor = result.tensor("O")
    if tensor is None or not sum(tensor.ulps):
        return ""
    width, height, gap = 640, 160, 64
    bars = []
    for place, label in enumerate(ulp_labels()):
        for kind, counts, offset in (("", tensor.ulps, 6), (" naive", tensor.naive_ulps, 30)):
            tall = height * counts[place] / max(sum(counts), 1)
            bars.append(
                f'<rect class="bar{kind}" x="{place * gap + offset}" y="{height - tall:.1f}" width="22" height="{tall:.1f}"/>'
            )
        bars.append(
            f'<text x="{place * gap + 29}" y="{height + 16}" text-anchor="middle">{escape(label)}</text>'
        )
    caption = "Share of the elements of O by their error in units in the last place; behind it, paler, the low-precision reference."
    picture = f'<svg viewBox="0 0 {width} {height + 24}" role="img" aria-label="{caption}" style="max-width:40rem">{"".join(bars)}</svg>'
    return f"<h2>Units in the last place</h2><figure>{picture}<figcaption>{caption}</figcaption></figure>"


def _map(found: ErrorMap) -> str:
    title = MAP_TITLES.get(found.kind, f"{found.kind}: rows and columns of head_dim")
    pictures = []
    for head, values in zip(found.heads, found.values, strict=True):
        source = base64.b64encode(_png(values)).decode()
        words = f"Head {head}: largest share of the allowed error {np.nanmax(values):.2f}"
        pictures.append(
            f'<figure><img alt="{escape(words)}" src="data:image/png;base64,{source}"><figcaption>{escape(words)}</figcaption></figure>'
        )
    cell = f"A cell is {found.row_step} x {found.column_step}; full strength is more than the rule allows."
    return f"<h2>{escape(title)}</h2><p>{cell}</p>{''.join(pictures)}"


def _png(values: np.ndarray) -> bytes:
    """Shares of the allowed error as black of growing opacity; above 1 opaque (PNG, grey with alpha, 8 bits)."""
    share = np.nan_to_num(values, nan=np.inf)
    alpha = np.where(share > 1, 255, np.round(140 * np.clip(share, 0, 1))).astype(np.uint8)
    pixels = np.stack([np.zeros_like(alpha), alpha], axis=-1).reshape(len(alpha), -1)
    lines = np.concatenate([np.zeros((len(pixels), 1), np.uint8), pixels], axis=1).tobytes()

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", values.shape[1], values.shape[0], 8, 4, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )
