"""What can be taken along from a check: one HTML file, numbers as JSON, and the command that repeats it."""

from __future__ import annotations

import streamlit as st

from kernels.check.cases import CheckCase
from kernels.check.report import Report, shell_command, to_html, to_json
from viz.check.context import CheckContext
from viz.shared import theme
from viz.shared.formats import file_name, problem_words

STYLE_COLORS = ("background", "text", "line", "good", "bad", "flash", "standard")


def report_panel(context: CheckContext, report: Report) -> None:
    """Two downloads and the command."""
    result = report.result
    user = context.user(result.case)
    kernel = user.typed if user else ""
    command = shell_command(result.case, kernel, context.file_name)
    name = _file_name(result.case, user.function if user else result.case.kernel)
    with st.container(horizontal=True):
        st.download_button(
            "Report as one HTML file",
            lambda: to_html(report, _style(), command),
            f"{name}.html",
            "text/html",
            icon=":material/lab_profile:",
            on_click="ignore",
            help="Opens anywhere, loads nothing.",
        )
        st.download_button(
            "Numbers as JSON",
            lambda: to_json([report], command),
            f"{name}.json",
            "application/json",
            icon=":material/download:",
            on_click="ignore",
        )
    st.caption("The same from a shell, with the verdict as exit status:")
    st.code(command, language="bash", wrap_lines=True)


def _file_name(case: CheckCase, kernel: str) -> str:
    return file_name(f"check {kernel} {problem_words(case.problem)}")


def _style() -> str:
    """The theme's colours for the report, light and dark."""

    def variables(palette: theme.Palette) -> str:
        return "".join(f"--{name}: {getattr(palette, name)};" for name in STYLE_COLORS)

    dark = f"@media (prefers-color-scheme: dark) {{ :root {{ {variables(theme.DARK)} }} }}"
    return f":root {{ {variables(theme.LIGHT)} }} {dark}"
