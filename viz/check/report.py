"""What can be taken along from a check: one HTML file, numbers as JSON, and the command that repeats it."""

from __future__ import annotations

import streamlit as st

from kernels.check.case.options import shell_command
from kernels.check.report.html import to_html
from kernels.check.report.report import Report, to_json
from viz.check.context import CheckContext
from viz.shared import theme
from viz.shared.downloads import Download, downloads
from viz.shared.formats import file_name, problem_words

STYLE_COLORS = ("background", "text", "line", "good", "bad")


def report_panel(context: CheckContext, report: Report) -> None:
    """Two downloads and the command."""
    result = report.result
    user = context.user(result.case)
    kernel = user.typed if user else ""
    command = shell_command(result.case, kernel, context.file_name)
    named = user.function if user else result.case.kernel
    name = file_name(f"check {named} {problem_words(result.case.problem)}")
    downloads(
        Download(
            "Report as one HTML file",
            lambda: to_html(report, _style(), command),
            f"{name}.html",
            "Opens anywhere, loads nothing.",
            icon=":material/lab_profile:",
        ),
        Download("Numbers as JSON", lambda: to_json([report], command), f"{name}.json"),
    )
    st.caption("The same from a shell, with the verdict as exit status:")
    st.code(command, language="bash", wrap_lines=True)


def _style() -> str:
    """The theme's colours for the report, light and dark."""

    def variables(palette: theme.Palette) -> str:
        return "".join(f"--{name}: {getattr(palette, name)};" for name in STYLE_COLORS)

    dark = f"@media (prefers-color-scheme: dark) {{ :root {{ {variables(theme.DARK)} }} }}"
    return f":root {{ {variables(theme.LIGHT)} }} {dark}"
