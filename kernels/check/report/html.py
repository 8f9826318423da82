"""The report of a check as one HTML file that loads nothing."""

from collections.abc import Mapping, Sequence
from html import escape

import msgspec

from kernels.check.case.options import shell_command
from kernels.check.report import report as reports
from kernels.check.result import CheckResult
from kernels.oracle.report import RULE

STYLE = """
:root { color-scheme: light dark; }
body {
  font: 15px/1.45 system-ui, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1rem;
}
h1 { font-size: 1.5rem; margin: 0; }
h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; }
.verdict { font-size: 2.2rem; font-weight: 700; }
.fail { color: light-dark(#b3261e, #ff8a80); }
.pass { color: light-dark(#146c2e, #7ddf9a); }
td.fail { font-weight: 700; }
table { border-collapse: collapse; }
td, th { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid GrayText; }
td:first-child, th:first-child { text-align: left; }
.wide { overflow-x: auto; }
pre { white-space: pre-wrap; }
"""
WRONG = (reports.VERDICT_WORDS["fail"], reports.VERDICT_WORDS["error"])


def to_html(result: CheckResult, command: str = "", all_results: Sequence[CheckResult] = ()) -> str:
    """The report as one page that loads nothing.

    With `all_results`, of which the result is one, a table of them comes first.
    """
    title = reports.VERDICT_WORDS[result.verdict]
    interpreted = "Triton's interpreter ran this on the CPU: the errors are those of its arithmetic."
    body = [
        _all_cases(all_results) if len(all_results) > 1 else "",
        f"<h1>{escape(result.label)}</h1>",
        f'<p class="verdict {result.verdict}">{title}</p>',
        _paragraphs(f"{result.reason}.", *(f"{words}." for words in reports.facts(result))),
        f"<pre>{escape(result.trace)}</pre>" if result.trace else "",
        _paragraphs(*result.notes, interpreted if result.interpreted else ""),
        _table("Errors against float64", [*map(reports.error_row, result.tensors)]),
        _paragraphs(RULE),
        _table("Case", _facts_rows(result.case.problem, runs=result.case.repeats)),
        _table("Device", _facts_rows(result.device)),
        f"<h2>Repeat it</h2><pre>{escape(command or shell_command(result.case))}</pre>",
        _paragraphs(f"Checked {result.checked_at} UTC."),
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}: {escape(result.label)}</title><style>{STYLE}</style>"
    )
    content = "\n".join(filter(None, body))
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{content}\n</body></html>\n'


def _paragraphs(*all_words: str) -> str:
    first_up = (words if words[1:2].isupper() else words[:1].upper() + words[1:] for words in all_words)  # dK
    return "".join(f"<p>{escape(words)}</p>" for words in first_up if words)


def _table(title: str, rows: Sequence[Mapping[str, object]]) -> str:
    if not rows:
        return ""
    lines = ["".join(f"<th>{escape(column)}</th>" for column in rows[0])]
    for row in rows:
        mark = ' class="fail"' if row.get("verdict") in WRONG else ""
        lines.append("".join(f"<td{mark}>{escape(_cell(value))}</td>" for value in row.values()))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<h2>{escape(title)}</h2><div class="wide"><table>{body}</table></div>'


def _cell(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)


def _facts_rows(record: object, **more: object) -> list[dict[str, object]]:
    values = msgspec.to_builtins(record) | more
    return [{"name": name, "value": value} for name, value in values.items() if value != ""]


def _all_cases(results: Sequence[CheckResult]) -> str:
    said = ""
    for found in reports.by_kernel(results):
        verdict = (
            f"{found[0].label}: {reports.VERDICT_WORDS[reports.overall(found)]}. {reports.summary(found)}."
        )
        said += _paragraphs(verdict, *(f"{words}." for words in reports.causes(found)))
    rows = _table("Each case", [*map(reports.case_row, reports.worst_first(results))])
    return f"<h1>All cases</h1>{said}{rows}<h2>The worst of them</h2>"
