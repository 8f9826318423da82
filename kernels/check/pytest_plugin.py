"""A plugin of pytest: each case of a check is a test, run and judged as by `python -m kernels.check`.

    pytest -p kernels.check.pytest_plugin --flash-check my_kernel.py:attention

runs the battery beside the tests that pytest finds. A case that is not checked is skipped; the last test is
the verdict on all, with refused cases fitted to what the kernel takes; if too few were checked it is not a
pass.
"""

import shlex
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kernels.check import command
from kernels.check.case.cases import CheckCase
from kernels.check.report.report import outcome, overall, summary_lines
from kernels.check.session import Plan, Session
from kernels.worker.failures import JobFailure

Test = Callable[[], None]
PLANS = pytest.StashKey[list[Plan]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    words = (
        "check this kernel: file.py:function or a kernel's name, and further options of python -m "
        "kernels.check in the same quotes. May be given several times"
    )
    parser.getgroup("flash-check").addoption(
        "--flash-check", action="append", default=[], metavar="KERNEL", help=words
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a bad call before anything runs."""
    try:
        given = [["--kernel", *shlex.split(text)] for text in config.getoption("flash_check")]
        config.stash[PLANS] = [command.plan(argv) for argv in given]
    except command.BAD_CALL as error:
        raise pytest.UsageError(f"--flash-check: {error}") from error


def pytest_report_header(config: pytest.Config) -> list[str]:
    return [f"{plan.command}: {plan.words}" for plan in config.stash[PLANS]]


@pytest.hookimpl(tryfirst=True)  # before those that select tests, by -k among others
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    for plan in config.stash[PLANS]:
        try:
            checks = Session(plan)
        except (*command.BAD_CALL, JobFailure) as error:
            raise pytest.UsageError(f"--flash-check: {error}") from error
        config.add_cleanup(checks.close)
        for kernel, cases in zip(plan.named, checks.cases, strict=True):
            label = plan.own[kernel].name if kernel in plan.own else kernel
            tests = [(case.words, partial(_check, checks, case)) for case in cases]
            for name, test in [*tests, ("verdict", partial(_judge_all, checks, kernel, config))]:
                items.append(
                    CheckItem.from_parent(session, name=name, nodeid=f"{label}::{name}", test=test, of=label)
                )


def _check(checks: Session, case: CheckCase) -> None:
    lines: list[str] = []
    result = checks.check(case, lambda *more: lines.extend(more))
    if outcome(result) == "skipped":
        pytest.skip(result.reason)
    if outcome(result):
        pytest.fail("\n".join(lines), pytrace=False)


def _judge_all(checks: Session, kernel: str, config: pytest.Config) -> None:
    """Fail if the kernel's cases that ran before in this process are not a pass: too few may be checked."""
    results = [result for result in checks.found if result.case.kernel == kernel]
    results = checks.fitted(results, lambda *lines: None)
    if overall(results) == "pass":
        return
    lines = summary_lines(results) if results else ["no case of it was run in this process"]
    apart = ["pytest-xdist keeps a kernel's cases in one process with --dist loadfile"]
    pytest.fail("\n".join([*lines, *(apart if hasattr(config, "workerinput") else [])]), pytrace=False)


class CheckItem(pytest.Item):
    def __init__(self, *, test: Test, of: str, **node: Any) -> None:
        super().__init__(**node)
        self.test, self.of = test, of

    def runtest(self) -> None:
        self.test()

    def reportinfo(self) -> tuple[Any, None, str]:
        return self.path, None, f"{self.of} {self.name}"
