"""The command line of the check: what it runs and says, and its exit status, also if a kernel ends it."""

import hashlib
import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from xml.etree import ElementTree

import msgspec
import pytest

from kernels.check import command as command_line
from kernels.check import session
from kernels.check.case.battery import BATTERY
from kernels.check.case.cases import CheckCase
from kernels.check.case.options import shell_command
from kernels.check.report.report import NOT_CHECKED
from kernels.check.requests import checked_result
from kernels.check.result import NOT_RUN, UNUSABLE, CheckResult
from kernels.device.runtime import BACKEND
from kernels.problem import InvalidProblem
from kernels.worker.failures import Cancelled, Crashed, OutOfMemory, TimedOut
from tests import BUGGY_KERNEL as BUGGY
from tests import ROOT
from tests.kernels.helpers import tiny
from tests.kernels.sanitizer import cases as memory_cases

SMALL = tiny(36, 50, 16, 32, mask="causal", q_heads=2)
QUICK = ["--shapes", "32,48", "--head-dim", "16", "--repeats", "1", "--forward"]
RIGHT = "    return torch.softmax((q @ k.mT).float() * q.shape[-1] ** -0.5, -1).to(v.dtype) @ v\n"
on_the_interpreter = pytest.mark.skipif(BACKEND == "cuda", reason="there is a GPU")


def run(tmp_path, *arguments):
    """Exit status, and the checks in the JSON that is written whatever happens."""
    reports = ["--json", str(tmp_path / "a.json")]
    status = command_line.main([*arguments, *reports])
    return status, json.loads((tmp_path / "a.json").read_text(), parse_constant=pytest.fail)["checks"]


def kernel_file(tmp_path, **bodies):
    """A file of functions: each runs its body for 32 queries, and is right for others."""
    path = tmp_path / "mine.py"
    text = "import ctypes, sys\nimport torch\n"
    for name, body in bodies.items():
        text += f"def {name}(q, k, v):\n    if q.shape[2] == 32: {body}\n{RIGHT}"
    path.write_text(text)
    return [word for name in bodies for word in ("--kernel", f"{path}:{name}")]


def test_whatever_a_kernel_does_the_other_cases_and_the_reports_are_there(tmp_path):
    ends = {
        "exits": ("sys.exit(0)", "SystemExit: 0 (mine.py:4"),
        "segfault": ("ctypes.string_at(0)", "SIGSEGV (exit status 139"),
    }
    kernels = kernel_file(tmp_path, **{name: body for name, (body, _) in ends.items()})
    status, checks = run(tmp_path, *QUICK, *kernels)
    assert status == 1
    for (_, words), first, second in zip(ends.values(), checks[::2], checks[1::2], strict=True):
        assert (first["verdict"], second["verdict"]) == ("fail", "pass")
        assert words in first["reason"]
    assert [check["ended"] for check in checks] == ["", "", "SIGSEGV", ""]


@pytest.mark.parametrize(
    ("failure", "verdict", "ended", "words"),
    [
        (TimedOut(20), "error", "TimedOut", "20 s, the time limit"),
        (OutOfMemory(None, 0), "error", "OutOfMemory", "Out of memory"),
        (Cancelled(), "error", "Cancelled", "Cancelled"),
        (Crashed(None, "no"), "error", "Crashed", "no process"),
        (Crashed(-signal.SIGKILL), "error", "SIGKILL", "memory ran out"),
        (Crashed(-signal.SIGFPE), "fail", "SIGFPE", "SIGFPE (exit status 136"),
        (Crashed(3, "gone"), "fail", "exit 3", "exit status 3, without a result: gone"),
        (InvalidProblem("mask", "round", "not taken"), "invalid", "", "mask='round'"),
    ],
)
def test_how_a_job_ends_without_a_result_is_a_verdict_or_none(failure, verdict, ended, words):
    def ends():
        raise failure

    result = checked_result(SimpleNamespace(result=ends), CheckCase(SMALL), "", None)
    assert (result.verdict, result.ended) == (verdict, ended)
    assert words in result.reason


PASSES = CheckResult(CheckCase(SMALL, "user"), "mine.py:f", None, "now", 0.0)
FAILS, HANGS = replace(PASSES, broken="it raised"), replace(PASSES, stopped="it hangs", ended="TimedOut")
REFUSES = replace(PASSES, refused="it does not take this")
NOT_IMPORTED = replace(REFUSES, ended=UNUSABLE)
RIGHT_TOO = replace(PASSES, case=CheckCase(SMALL, "user2"))


@pytest.mark.parametrize(
    ("results", "status"),
    [
        ([PASSES, REFUSES], 0),
        ([FAILS, HANGS, RIGHT_TOO], 1),
        ([HANGS, PASSES], 2),
        ([REFUSES, RIGHT_TOO], 2),
        ([PASSES, REFUSES, REFUSES], 2),
        ([], 2),
        ([NOT_IMPORTED, RIGHT_TOO], 3),
        ([NOT_IMPORTED, replace(RIGHT_TOO, stopped="it hangs")], 3),
        ([NOT_IMPORTED, replace(RIGHT_TOO, broken="it raised")], 1),
    ],
)
def test_the_exit_status_says_wrong_not_judged_or_a_bad_call(results, status):
    assert command_line.exit_status(results) == status


CRASH, HANG = Crashed(-signal.SIGSEGV), TimedOut(9)


@pytest.mark.parametrize(
    ("options", "failures", "status", "run_cases"),
    [
        (["--fail-fast"], [HANG, CRASH], 1, 2),
        ([], [CRASH, CRASH, HANG, CRASH, CRASH, CRASH], 1, 6),
        ([], [HANG] * 3, 2, 3),
        ([], [None, OutOfMemory(None, 0), OutOfMemory(None, 0), None], 2, 8),
        (["--total-limit", "25"], [None, None], 2, 3),
        (["--total-limit", "25"], [None, CRASH], 1, 3),
    ],
)
def test_what_is_not_run_is_named_and_not_judged(
    options, failures, status, run_cases, here, tmp_path, monkeypatch
):
    """Each case takes 10 s of a clock that only cases move."""
    clock, given = SimpleNamespace(now=0.0), iter(failures)
    submit = here.submit

    def submit_or_fail(client, request, limit_s):
        clock.now += min(limit_s, 10)
        failure = TimedOut(limit_s) if limit_s < 10 else next(given, None)
        return here.failed(failure) if failure else submit(client, request, limit_s)

    monkeypatch.setattr(here, "submit", submit_or_fail)
    monkeypatch.setattr(session, "time", SimpleNamespace(monotonic=lambda: clock.now))
    shapes = ",".join(str(length) for length in range(16, 24))
    kernel = ["--kernel", f"{BUGGY}:attention_fixed", *QUICK, "--shapes", shapes]
    junit = tmp_path / "a.xml"
    found, checks = run(tmp_path, *kernel, *options, "--junit", str(junit))
    assert found == status
    ran = [check["ended"] != NOT_RUN for check in checks]
    assert ran == [True] * run_cases + [False] * (8 - run_cases)
    assert all(NOT_RUN in check["reason"] for check in checks[run_cases:])
    cases = ElementTree.parse(junit).getroot().findall(".//testcase")
    assert [case.find("error") is not None for case in cases[run_cases:]] == [True] * (8 - run_cases)


def test_a_fault_of_ours_is_no_verdict(monkeypatch, capsys):
    def breaks(plan):
        raise ZeroDivisionError

    monkeypatch.setattr(command_line, "Session", breaks)
    assert command_line.main([]) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_file_that_cannot_be_imported_is_a_bad_call_and_read_once(here, tmp_path):
    (tmp_path / "mine.py").write_text("import no_such_module\n")
    status, checks = run(tmp_path, *QUICK, "--kernel", f"{tmp_path}/mine.py:attention")
    assert status == 3
    assert "no_such_module" in checks[0]["reason"]
    assert [check["ended"] for check in checks] == [UNUSABLE, NOT_RUN]


def test_the_command_of_a_report_repeats_the_check(here, tmp_path):
    problem = SMALL.with_(mask="window", window_left=7, window_right=2, seed=5, dtype="bfloat16")
    cases = CheckCase(problem, "flash1", False, 2), CheckCase(SMALL, layout="sliced", scale=0.25, repeats=1)
    for case in cases:
        status, (found,) = run(tmp_path, *shell_command(case).split()[3:])
        assert status == 0
        assert msgspec.convert(found["case"], CheckCase) == case


def test_the_battery_is_fitted_to_a_kernel_and_repeated_by_its_seed(tmp_path, capsys, here):
    takes = "assert q.shape[2] % 32 == 0 == k.shape[2] % 32, 'round'; assert q.shape[3] == 64"
    (tmp_path / "mine.py").write_text(f"import torch\ndef f(q, k, v):\n    {takes}\n{RIGHT}")
    kernel = ["--kernel", f"{tmp_path}/mine.py:f", "--forward", "--repeats", "1"]
    assert re.search(r"--seed \d+", command_line.plan([*kernel, "--seed", "random"]).command)
    status, checks = run(tmp_path, *kernel, "--seed", "275406712")
    assert status == 0
    assert len(checks) == len(BATTERY)
    said = capsys.readouterr().out
    (seed,) = {check["case"]["problem"]["seed"] for check in checks}
    assert f"The battery, seed {seed}." in said
    assert all(words in said for words in ("lengths: 32", "not head_dim", f", seed {seed}\n"))
    case = msgspec.convert(checks[-1]["case"], CheckCase)
    status, (again,) = run(tmp_path, *shell_command(case, kernel[1]).split()[3:])
    assert again["tensors"] == checks[-1]["tensors"]


def test_that_the_battery_is_not_run_is_said_and_it_can_be_listed(tmp_path, capsys, here):
    assert run(tmp_path, *QUICK, "--seed", "3")[0] == 0
    assert "Not the battery" in (said := capsys.readouterr().out)
    assert all(option in said.splitlines()[0] for option in ("--shapes", "--head-dim", "--seed"))
    (tmp_path / "mine.py").write_text("CHECK = {'lengths': 64}\nraise SystemExit('nobody runs me')")
    assert command_line.main(["--list", "--kernel", f"{tmp_path}/mine.py:f"]) == 0
    said = capsys.readouterr().out
    assert all(catches in said for catches in BATTERY.values())
    assert "70x109" not in said
    assert "128x192 d64 full batch 2" in said
    assert NOT_CHECKED in said
    assert command_line.main(["--list", "--scale", "1"]) == 3


def test_the_exit_status_is_the_worst_verdict_of_the_kernels(here, tmp_path, capsys, monkeypatch):
    fixed = f"{BUGGY}:attention_fixed"
    (tmp_path / "no.py").write_text("def attention(q, k, v):\n    raise NotImplementedError('not yet')\n")
    refuses = ["--kernel", f"{tmp_path}/no.py:attention"]
    shapes = [*QUICK, "--shapes", "40,48"]
    assert run(tmp_path, *shapes, "--kernel", fixed, *refuses)[0] == 2
    capsys.readouterr()
    monkeypatch.chdir(BUGGY.parent)
    buggy = f"./{BUGGY.name}:attention"
    status, checks = run(tmp_path, *shapes, "--kernel", buggy, "--kernel", fixed, *refuses)
    assert status == 1
    (digest, _, _) = (each["sha256"] for each in json.loads((tmp_path / "a.json").read_text())["kernels"])
    assert digest == hashlib.sha256(BUGGY.read_bytes()).hexdigest()
    verdicts = [check["verdict"] for check in checks]
    assert verdicts == ["fail", "fail", "pass", "pass", "invalid", "invalid"]
    assert "the accumulator is not rescaled" in checks[0]["cause"]
    header, *rows = capsys.readouterr().out.strip().splitlines()[-3:]
    names = [name.rpartition("/")[2] for name in (buggy, fixed, refuses[1])]
    assert header.split() == ["case", *names]
    assert all("fail" in row and "pass" in row for row in rows)


@on_the_interpreter
def test_memory_faults_fail_and_torchs_compiler_runs_under_the_watch(here, tmp_path):
    kernel = ["--kernel", f"{memory_cases.__file__}:reads_past_keys", "--shapes", "33x35"]
    status, (check,) = run(tmp_path, *QUICK, "--repeats", "2", *kernel)
    assert status == 1
    assert [finding["kind"] for finding in check["findings"]] == ["out-of-bounds read"]
    assert all(tensor["passes"] for tensor in check["tensors"])
    flex = "from torch.nn.attention.flex_attention import flex_attention\n"
    (tmp_path / "flex.py").write_text(f"{flex}def attention(q, k, v):\n    return flex_attention(q, k, v)\n")
    assert run(tmp_path, *QUICK, "--kernel", f"{tmp_path}/flex.py:attention")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--kernel", "flash9"], "kernel='flash9'"),
        (["--kernel", "none.py:f"], "none.py"),
        (["--block-m", "7"], "block_m=7"),
        (["--kv-heads", "0"], "kv_heads=0"),
        (["--kernel", "sdpa_flash" if BACKEND == "interpreter" else "sdpa"], "on this device"),
    ],
)
def test_wrong_arguments_are_explained_and_exit_with_3(arguments, words, here, capsys):
    assert command_line.main(arguments) == 3
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", ["--time-limit=inf", "--head-dim=a", "--inputs=odd", "--json={0}", "--json={0}/none/a", "--no"]
)
def test_what_the_parser_refuses_ends_before_anything_is_checked(option, tmp_path, capsys):
    assert command_line.main([*QUICK, option.format(tmp_path)]) == 3
    assert option.partition("=")[0] in capsys.readouterr().err


def test_whoever_ends_the_program_gets_the_cases_until_then(tmp_path):
    given, report = kernel_file(tmp_path, slow="import time; time.sleep(60)"), tmp_path / "a.json"
    shapes = ["--shapes", "48,32", *QUICK[2:]]
    command = [sys.executable, "-m", "kernels.check", *given, *shapes, "--json", report]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        for line in program.stdout:
            if line.startswith((b"PASS", b"FAIL", b"TOO FEW")):
                break
        program.terminate()
        assert program.wait(30) == 2
    assert len(json.loads(report.read_text())["checks"]) == 1
