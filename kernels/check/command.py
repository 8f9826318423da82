"""Checks whether a kernel's results are right, by the rule of FlashAttention's own tests.

The kernel is one of ours, torch's, or your own function. Without shapes or other
properties of a case, a battery of small cases is run, each with something that kernels get wrong. Every case
runs in a child process with a time limit, so that a crash or a hang costs that case alone. If three cases in
a row end the process alike, the others of that kernel are not run.

Exit status: 0 passes; 1 wrong, a case fails; 2 not judged: a case ended without a verdict, fewer than half of
the cases were checked, or the check itself broke; 3 a bad call: an argument is wrong, or the kernel's file is
missing, cannot be imported or has no such function. Of several kernels each is judged alone, and the status
is the first of 1, 3, 2, 0 that one of them has.
"""

import argparse
import math
import re
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from kernels.check.case import cases, options
from kernels.check.report import report as reports
from kernels.check.result import UNUSABLE, CheckResult
from kernels.check.session import NAMED_KERNELS, Plan, Session
from kernels.problem import InvalidProblem
from kernels.tool_arguments import report_path, seconds
from kernels.worker.failures import JobFailure

EXIT = {"pass": 0, "fail": 1, "error": 2, "invalid": 2, "few": 2, UNUSABLE: 3}
WORST_FIRST = (1, 3, 2, 0)
REPORTS = {
    "json": "all numbers as JSON",
    "junit": "each case as a JUnit test case (XML)",
    "sarif": "what is wrong, with file and line, as SARIF (JSON)",
}
DETAILED_CASES = 4
"""Up to so many cases, every tensor of each is listed; of more, those of cases that do not pass."""


class InvalidCall(ValueError):
    """Arguments that the parser does not accept; the message says why, and what it accepts."""


BAD_CALL = (InvalidCall, InvalidProblem, OSError)
"""What `plan` raises."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is the verdict."""
    try:
        given = plan(sys.argv[1:] if argv is None else argv)
        return _list(given) if given.arguments.list else exit_status(_run(given))
    except BAD_CALL as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT[UNUSABLE]
    except JobFailure as error:
        print(f"error: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("error: stopped; reports hold the cases until then", file=sys.stderr)
    except Exception:  # Python's own status for a fault of ours is 1, and says here that the kernel is wrong
        traceback.print_exc()
    return EXIT["error"]


def exit_status(results: Sequence[CheckResult]) -> int:
    statuses = {
        EXIT[UNUSABLE if any(result.ended == UNUSABLE for result in of_one) else reports.overall(of_one)]
        for of_one in reports.by_kernel(results)
    }
    return min(statuses, key=WORST_FIRST.index, default=EXIT["invalid"])


def plan(argv: Sequence[str]) -> Plan:
    """What the arguments ask for. Raises BAD_CALL."""
    arguments, command = _parser().parse_args(argv), " ".join(["python -m kernels.check", *argv])
    return Plan.of(arguments, re.sub(r"(--seed[ =])random\b", rf"\g<1>{arguments.seed}", command))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidCall(f"{message}; {self.prog} --help says what is accepted")


def _parser() -> argparse.ArgumentParser:
    description, _, epilog = (__doc__ or "").partition("\n\nExit")
    parser = _Parser(prog="python -m kernels.check", description=description, epilog=f"Exit{epilog}")
    add = parser.add_argument
    named = (
        f"one of {', '.join(NAMED_KERNELS)}; or file.py:function, your own function with the signature of "
        f"scaled_dot_product_attention (default {cases.PUBLIC_CALL}). Several are checked side by side"
    )
    add("--kernel", action="append", default=[], help=named)
    add("--list", action="store_true", help="list the battery, what each case is there to catch; run nothing")
    options.add_case_options(parser)
    add("--forward", action="store_true", help="do not check the gradients")
    required = "a function of yours that launches no Triton kernel fails"
    add("--require-kernel", action="store_true", help=required)
    repeats = f"runs that are compared bit by bit (default {options.REPEATS}, battery 2)"
    add("--repeats", type=int, help=repeats)
    limit = "seconds, more than 0, after which a case is stopped, without a verdict (default 120)"
    add("--time-limit", type=seconds, default=120.0, help=limit)
    total = "seconds after which the check ends: cases that it has not judged by then get no verdict"
    add("--total-limit", type=seconds, default=math.inf, help=total)
    add("--fail-fast", action="store_true", help="do not run further cases after the first that fails")
    for name, content in REPORTS.items():
        add(f"--{name}", type=report_path, metavar="FILE", help=f"write {content} to this file")
    return parser


def _list(given: Plan) -> int:
    """Print the battery of each kernel, what its cases are there to catch, and what is not tried."""
    if not given.arguments.battery:
        raise InvalidCall(f"--list lists the battery. {given.words}")
    for name, kernel in given.named.items():
        of_kernel = given.battery(name)
        print(f"{kernel.name if kernel else name}, seed {given.arguments.seed}: {len(of_kernel)} cases")
        rows = [
            {
                "case": case.words,
                "heads": case.heads_words,
                "is there to catch": catches,
                "fitted to limits": "; ".join(case.within),
            }
            for case, catches in of_kernel.items()
        ]
        _print(*reports.indented(*reports.table_text(rows).splitlines()))
    _print(reports.NOT_CHECKED, reports.NEEDS_GPU)
    return EXIT["pass"]


def _run(given: Plan) -> list[CheckResult]:
    print(given.words)
    session = Session(given)
    try:
        detailed = len(session.cases[0]) <= DETAILED_CASES
        of_kernels = [
            session.fitted([session.check(case, _print, detailed) for case in of_kernel], _print)
            for of_kernel in session.cases
        ]
    finally:
        session.close()
    _print_summary(of_kernels)
    return [result for results in of_kernels for result in results]


def _print(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)


def _print_summary(of_kernels: list[list[CheckResult]]) -> None:
    several = len(of_kernels) > 1
    for results in of_kernels:
        if len(results) > 1 or several:
            _print("", *reports.summary_lines(results))
    if several:
        print("\nLargest error over what is allowed; above 1 fails:")
        print(reports.table_text(reports.side_by_side(of_kernels)))
