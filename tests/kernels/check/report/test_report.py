"""Results in words, tables and files: they survive every format, and the files load nothing."""

import json
import math
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest

from kernels.check.case.cases import CheckCase
from kernels.check.judge.run import run_check
from kernels.check.report.machine import to_json, to_junit, to_sarif
from kernels.check.report.report import (
    causes,
    overall,
    result_lines,
    summary,
)
from kernels.check.result import (
    FORMAT_VERSION,
    NOTHING_FITS,
    UNUSABLE,
    Cause,
    CheckResult,
    TensorCheck,
)
from kernels.check.subject.user_kernel import UserKernel
from kernels.device.backend import DeviceInfo
from kernels.problem import AttentionProblem
from kernels.sanitizer.finding import Finding
from kernels.worker.process import decode, encode
from tests.kernels.helpers import tiny

DEVICE = DeviceInfo("interpreter", "a CPU", "t", "t", "p")
READ = Finding("out-of-bounds read", "a load reads past the end of K", "/a/mine.py", 12, "tl.load(k)")


def result(length=64, **fields):
    case = CheckCase(AttentionProblem(q_len=length, kv_len=length), "user")
    return CheckResult(case, "mine.py:f", DEVICE, "now", 0.0, **fields)


PASS, FAIL = result(), result(32, broken="it returned NoneType", causes=(Cause("x", ("dQ", "dK")),))
WRONG = TensorCheck("O", 0.2, 0.1, 0.01, 0.01, 0.02, (0, 0, 0, 0), 0.2, 0.0, 0, 4)
INVALID, ERROR = result(16, refused="needs a GPU: here, there"), result(48, stopped="it hangs")
FEW = [PASS, *[result(16 + n, refused="it takes 0.5 alone. No more") for n in range(17)]]


@pytest.mark.parametrize(
    ("results", "verdict", "parts"),
    [
        ([PASS], "pass", ()),
        ([PASS, INVALID], "pass", ()),
        ([PASS, ERROR], "error", ()),
        ([PASS, FAIL, INVALID, ERROR], "fail", ("1 of 4", "32x32 d64", "48x48 d64", "(needs a GPU)")),
        ([INVALID], "invalid", ()),
        (FEW, "few", ("17 not checked (it takes 0.5 alone)", "(1 without gradients)")),
    ],
)
def test_one_failure_or_case_without_a_verdict_decides_few_passes_are_none_and_all_are_counted(
    results, verdict, parts
):
    assert overall(results) == verdict
    assert all(part in summary(results) for part in parts)


def test_what_fits_some_of_the_failing_cases_is_not_called_the_cause():
    assert causes([PASS, FAIL, FAIL]) == ["cause: dQ and dK equal x"]
    other, found = result(33, tensors=(WRONG,)), result(34, findings=(READ,))
    first, second, rest = causes([PASS, FAIL, FAIL, found, other])
    assert first == "in 2 of 4 failing cases: dQ and dK equal x"
    assert second == "in 1 of 4 failing cases: an out-of-bounds read at mine.py:12"
    assert rest == f"{NOTHING_FITS} 1 of 4 failing cases"


def test_that_nothing_fits_is_said_of_wrong_results_whose_cause_was_looked_for():
    wrong = {"tensors": (WRONG,)}
    for of, said in (
        (result(**wrong), True),
        (result(**wrong, causes=(Cause("x", ("O",)),)), False),
        (result(**wrong, findings=(READ,)), False),
        (result(4096, **wrong), False),  # too large
        (result(broken="it returned NoneType"), False),
    ):
        assert (NOTHING_FITS in "\n".join(result_lines(of))) == said
        assert any(NOTHING_FITS in words for words in causes([of])) == said


def test_a_finding_turns_a_pass_into_a_fail_and_survives_the_pipe():
    found = result(findings=(READ,))
    assert found.verdict == "fail"
    assert "an out-of-bounds read at mine.py:12" in found.reason
    assert msgspec.convert(found.as_dict(), CheckResult).as_dict() == found.as_dict()
    assert READ.sentence in "\n".join(result_lines(found))


def test_junit_has_a_test_case_per_case_and_one_more_if_too_few_were_checked():
    odd = result(17, broken="\x1b[31mno\x00 <output>")
    unusable = replace(INVALID, ended=UNUSABLE)
    for (passing, failing, skipped, errors), results in {
        (1, 1, 1, 2): [PASS, odd, INVALID, ERROR, unusable],
        (1, 0, 0, 0): [PASS],
        (1, 0, 17, 1): FEW,
    }.items():
        (suite,) = ElementTree.fromstring(to_junit(results))
        assert suite.find("properties/property").get("value") == summary(results)
        kinds = [[each.tag for each in case] for case in suite.findall("testcase")]
        counted = [kinds.count([kind]) for kind in ("failure", "skipped", "error")]
        assert counted == [failing, skipped, errors]
        assert kinds.count([]) == passing
        assert [int(suite.get(name)) for name in ("failures", "skipped", "errors")] == counted
        assert int(suite.get("tests")) == len(kinds)


def test_sarif_has_each_finding_once_at_its_line_and_each_wrong_kernel():
    kernel = UserKernel(Path("/a/mine.py"), "f")
    wrong = [result(findings=(READ,)), result(32, findings=(READ, replace(READ, file="", line=0)))]
    (run,) = json.loads(to_sarif(wrong, {"user": kernel}))["runs"]
    found = [each["locations"][0]["physicalLocation"] for each in run["results"]]
    assert [each["region"]["startLine"] for each in found] == [12, 1, 1]
    assert {each["artifactLocation"]["uri"] for each in found} == {"file:///a/mine.py"}
    texts = [each["message"]["text"] for each in run["results"]]
    assert texts[:2] == [READ.words, READ.words]
    assert "2 of 2 cases fail" in texts[2]
    assert json.loads(to_sarif([PASS], {"user": kernel}))["runs"][0]["results"] == []


SMALL = tiny(36, 50, 16, 32, mask="causal", q_heads=2)


@pytest.fixture(scope="module")
def ours():
    return run_check(CheckCase(SMALL, "flash2", repeats=1))


def test_results_survive_the_pipe(ours):
    again = msgspec.convert(decode(encode(ours)), CheckResult)
    assert again.as_dict() == ours.as_dict()
    assert [found.kind for found in again.maps] == ["O", "dQ", "dK", "dV", "weights"]
    for mine, theirs in zip(ours.maps, again.maps, strict=True):
        for name, value in vars(mine).items():
            np.testing.assert_array_equal(getattr(theirs, name), value, strict=value is not None)


def test_the_json_report_is_strict_and_holds_the_numbers(ours):
    spoiled = replace(ours.tensors[0], max_error=math.inf, worst_value=math.nan)
    spoiled = replace(ours, tensors=(spoiled, *ours.tensors[1:]))
    document = json.loads(to_json([spoiled], hashes={"flash2": "ab"}), parse_constant=pytest.fail)
    assert (document["version"], document["seeds"]) == (FORMAT_VERSION, [SMALL.seed])
    assert document["device"]["torch"] == document["versions"]["torch"] == ours.device.torch
    assert document["kernels"][0]["sha256"] == "ab"
    (found,) = document["checks"]
    first, second = found["tensors"][:2]
    assert (found["verdict"], first["max_error"], first["worst_value"]) == ("fail", "inf", "nan")
    assert second["max_error"] == ours.tensors[1].max_error
    assert found["case"]["problem"]["q_len"] == SMALL.q_len
