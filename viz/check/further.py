"""What a check can be asked beyond its verdict: a report, and time and memory of its kernel."""

import streamlit as st

from kernels.check.case.cases import USERS
from kernels.check.case.options import shell_command
from kernels.check.report.machine import to_json
from kernels.check.result import CheckResult
from viz.check.context import CheckContext
from viz.shared.formats import file_name, problem_words
from viz.shared.layout import download, problem_link


def measure_panel(context: CheckContext, result: CheckResult) -> None:
    """The way to the time and memory of the user's kernel, on a GPU."""
    ran = not (result.refused or result.broken or result.stopped)
    if result.case.kernel in USERS and ran and context.backend == "cuda":
        problem_link("measure", "Time and memory beside ours and torch's", result.case.problem)


def report_panel(context: CheckContext, result: CheckResult) -> None:
    """All numbers as JSON, and the command that repeats the check."""
    user = context.user(result.case.kernel)
    command = shell_command(result.case, user.given if user else "")
    named = user.function if user else result.case.kernel
    name = file_name(f"check {named} {problem_words(result.case.problem)}")
    download("Numbers as JSON", lambda: to_json([result], command), f"{name}.json")
    st.caption("The same from a shell, with the verdict as exit status:")
    st.code(command, language="bash", wrap_lines=True)
