"""Many results in a few lines."""

import msgspec
import pytest

from kernels.check.case.cases import CheckCase
from kernels.check.report.report import (
    causes,
    number_words,
    overall,
    result_lines,
    side_by_side,
    summary,
    table_text,
)
from kernels.check.result import Cause, CheckResult
from kernels.device.backend import DeviceInfo
from kernels.problem import AttentionProblem
from kernels.sanitizer.finding import Finding

DEVICE = DeviceInfo("interpreter", "a CPU", "t", "t", "p")
READ = Finding("out-of-bounds read", "a load reads past the end of K", "/a/mine.py", 12, "tl.load(k)")


def result(length=64, **fields):
    case = CheckCase(AttentionProblem(q_len=length, kv_len=length), "user")
    return CheckResult(case, "mine.py:f", DEVICE, "now", 0.0, **fields)


PASS, FAIL = result(), result(32, broken="it returned NoneType", causes=(Cause("x", ("dQ", "dK")),))
INVALID, ERROR = result(16, refused="needs a GPU: here, there"), result(48, stopped="it hangs")
FEW = [PASS, *[result(16 + n, refused="it takes 0.5 alone. No more") for n in range(17)]]


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        ([PASS], "pass"),
        ([PASS, INVALID], "pass"),
        ([PASS, ERROR], "error"),
        ([ERROR, FAIL, PASS], "fail"),
        ([INVALID], "invalid"),
        (FEW, "few"),
    ],
)
def test_one_failure_or_one_case_without_a_verdict_decides_and_few_passes_are_no_pass(results, verdict):
    assert overall(results) == verdict


@pytest.mark.parametrize(
    ("results", "parts"),
    [
        ([PASS, FAIL, INVALID, ERROR], ("1 of 4", "32x32 d64 full", "48x48 d64 full", "(needs a GPU)")),
        (FEW, ("17 not checked (it takes 0.5 alone)", "(1 without gradients)")),
    ],
)
def test_the_summary_names_and_counts_the_cases(results, parts):
    assert all(part in summary(results) for part in parts)


def test_what_fits_some_of_the_failing_cases_is_not_called_the_cause():
    assert causes([PASS, FAIL, FAIL]) == ["cause: dQ and dK equal x"]
    other, found = result(33, broken="it returned NoneType"), result(34, findings=(READ,))
    first, second, rest = causes([PASS, FAIL, FAIL, found, other])
    assert first == "in 2 of 4 failing cases: dQ and dK equal x"
    assert second == "in 1 of 4 failing cases: an out-of-bounds read at mine.py:12"
    assert " 1 " in rest


def test_kernels_stand_side_by_side_by_their_cases():
    rows = side_by_side([[PASS, FAIL], [result(refused="no")]])
    assert [[*row.values()] for row in rows] == [
        ["64x64 d64 full", "pass", "invalid"],
        ["32x32 d64 full", "fail", ""],
    ]
    assert [*rows[0]] == ["case", "mine.py:f (1)", "mine.py:f (2)"]
    assert len({line.index("pass") for line in table_text(rows).splitlines() if "pass" in line}) == 1


def test_a_finding_turns_a_pass_into_a_fail_and_survives_the_pipe():
    found = result(findings=(READ,))
    assert found.verdict == "fail"
    assert "an out-of-bounds read at mine.py:12" in found.reason
    assert msgspec.convert(found.as_dict(), CheckResult).as_dict() == found.as_dict()
    assert READ.sentence in "\n".join(result_lines(found))


def test_changed_inputs_are_a_verdict_of_their_own():
    found = result(changed={"query": 1024, "dO": 1})
    assert found.verdict == "fail"
    assert "query (1,024 elements) and dO (1 elements)" in found.reason


def test_numbers_that_are_not_finite_have_words():
    values = (float("inf"), float("-inf"), float("nan"), 0.0, 1.25)
    assert [number_words(value) for value in values] == ["infinite", "minus infinity", "NaN", "0", "1.25e+00"]
