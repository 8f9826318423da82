"""Many results in a few lines."""

import pytest

from kernels.check.cases import CheckCase
from kernels.check.result import Cause, CheckResult, Repeats
from kernels.check.result_lines import number_words, result_lines, told_apart
from kernels.check.summary import causes, overall, side_by_side, summary, table_text
from kernels.device.backend import DeviceInfo
from kernels.problem import AttentionProblem
from kernels.sanitizer.finding import Finding

DEVICE = DeviceInfo("interpreter", "a CPU", "t", "t", "p")


def result(length=64, **fields):
    case = CheckCase(AttentionProblem(q_len=length, kv_len=length), "user")
    return CheckResult(case, "mine.py:f", DEVICE, "now", 0.0, **fields)


PASS, FAIL = result(), result(32, broken="it returned NoneType", causes=(Cause("x", ("dQ", "dK", "dV")),))
INVALID, ERROR = result(16, refused="needs a GPU: here, there"), result(48, stopped="it hangs")


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        ([PASS], "pass"),
        ([PASS, INVALID], "pass"),
        ([PASS, ERROR], "error"),
        ([ERROR, FAIL, PASS], "fail"),
        ([INVALID], "invalid"),
    ],
)
def test_one_failure_or_one_case_without_a_verdict_decides(results, verdict):
    assert overall(results) == verdict


def test_the_summary_names_the_cases_and_counts_the_causes():
    words = summary([PASS, FAIL, INVALID, ERROR])
    assert "1 of 4 cases fail (32x32 d64 full)" in words
    assert "1 gave no verdict (48x48 d64 full)" in words
    assert "1 not checked (needs a GPU)" in words
    assert causes([PASS, FAIL, FAIL]) == ["cause: dQ, dK and dV equal x"]


def test_what_fits_some_of_the_failing_cases_is_not_called_the_cause():
    other = result(33, broken="it returned NoneType")
    found = result(34, findings=(Finding("out-of-bounds read", "w", "/a/mine.py", 12, "tl.load(k)"),))
    assert causes([PASS, FAIL, FAIL, found, other]) == [
        "in 2 of 4 failing cases: dQ, dK and dV equal x",
        "in 1 of 4 failing cases: an out-of-bounds read at mine.py:12",
        "nothing that is known fits the other 1 failing case",
    ]


def test_a_pass_says_that_its_gradients_were_not_judged():
    assert PASS.reason.endswith("; gradients were not judged")
    assert summary([PASS, PASS]) == "2 pass without gradients"


def test_few_passes_among_many_cases_are_no_pass():
    results = [PASS, *[result(16 + n, refused="it takes 0.5 alone. No more") for n in range(17)]]
    assert overall(results) == "few"
    words = summary(results)
    assert words.startswith("only 1 of 18 cases passes, too few for a verdict on the kernel")
    assert words.endswith("17 not checked (it takes 0.5 alone)")


def test_two_numbers_are_told_apart():
    assert told_apart(1.2345, 1.2344) == ("1.2345", "1.2344")
    assert told_apart(1.0, 1.0) == ("1", "1")
    assert told_apart(float("nan"), 0.25) == ("NaN", "0.25")


def test_what_differs_between_runs_is_said_in_words():
    assert Repeats(3, {"O": 0, "dQ": 12}, 0.1).words == "dQ (12 elements) differs"


def test_kernels_stand_side_by_side_by_their_cases():
    rows = side_by_side([[PASS, FAIL], [result(refused="no")]])
    assert rows == [
        ["case", "mine.py:f", "mine.py:f"],
        ["64x64 d64 full", "pass", "invalid"],
        ["32x32 d64 full", "fail", ""],
    ]
    assert len({line.index("pass") for line in table_text(rows).splitlines() if "pass" in line}) == 1


def test_a_finding_turns_a_pass_into_a_fail_and_survives_the_pipe():
    fault = Finding("out-of-bounds read", "a load reads past the end of K", "/a/mine.py", 12, "tl.load(k)")
    found = result(findings=(fault,))
    assert found.verdict == "fail"
    assert found.reason.endswith("there is an out-of-bounds read at mine.py:12")
    assert CheckResult.from_dict(found.as_dict()).as_dict() == found.as_dict()
    said = "found: out-of-bounds read: a load reads past the end of K (mine.py:12: tl.load(k))"
    assert said in result_lines(found)


def test_changed_inputs_are_a_verdict_of_their_own():
    found = result(changed={"query": 1024, "dO": 1})
    assert found.verdict == "fail"
    assert found.reason == "it changes its inputs in place: query (1,024 elements) and dO (1 elements)"


def test_numbers_that_are_not_finite_have_words():
    values = (float("inf"), float("-inf"), float("nan"), 0.0, 1.25)
    assert [number_words(value) for value in values] == ["infinite", "minus infinity", "NaN", "0", "1.25e+00"]
