"""The command line of the check: what it runs and says, and its exit status, also if a kernel ends it."""

import json

import numpy as np
import pytest

from kernels.algorithms import run_traced
from kernels.check.cases import CheckCase
from kernels.check.report import shell_command
from kernels.device.runtime import BACKEND
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_inputs
from kernels.tools import check as command_line
from tests import BUGGY_KERNEL as BUGGY

SMALL = AttentionProblem(q_len=36, kv_len=50, head_dim=16, block_m=16, block_n=32, mask="causal", q_heads=2)
QUICK = ["--shapes", "32,48", "--head-dim", "16", "--repeats", "1", "--forward"]
RIGHT = "    return torch.softmax((q @ k.mT).float() * q.shape[-1] ** -0.5, -1).to(v.dtype) @ v\n"


def kernel_file(tmp_path, body):
    """A file whose `attention` runs `body` for 32 queries, and is right for others."""
    path = tmp_path / "mine.py"
    indented = "".join(f"        {line}\n" for line in body.splitlines())
    head = "import ctypes, os, sys, time\nimport torch\ncalls = []\n\ndef attention(q, k, v):\n"
    path.write_text(f"{head}    calls.append(1)\n    if q.shape[2] == 32:\n{indented}{RIGHT}")
    return f"{path}:attention"


def run(tmp_path, *arguments):
    """Exit status, and the verdicts and reasons in the JSON that is written whatever happens."""
    status = command_line.main(
        [*arguments, "--json", str(tmp_path / "a.json"), "--html", str(tmp_path / "a.html")]
    )
    checks = json.loads((tmp_path / "a.json").read_text())["checks"]
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")
    return status, [(check["verdict"], check["reason"]) for check in checks]


@pytest.mark.parametrize(
    ("body", "verdict", "words"),
    [
        ("sys.exit(0)", "fail", "its forward ends the process: sys.exit(0) (mine.py:8"),
        ("os._exit(0)", "fail", "it ended the process with exit status 0, without a result"),
        ("ctypes.string_at(0)", "fail", "it crashed the process with SIGSEGV (exit status 139 in a shell)"),
        ("os.abort()", "fail", "it crashed the process with SIGABRT (exit status 134 in a shell)"),
        ("if len(calls) > 1: raise RuntimeError('again')", "fail", "run 2 of 2 on the same inputs failed"),
        ("time.sleep(99)", "error", "it had not ended after 20 s, the time limit: it hangs, or is slow"),
        ("torch.empty(1 << 50)", "error", "Out of memory: asked for"),
    ],
    ids=["exit", "_exit", "segfault", "abort", "second run", "hang", "memory"],
)
def test_whatever_a_kernel_does_the_other_cases_and_the_reports_are_there(body, verdict, words, tmp_path):
    kernel = kernel_file(tmp_path, body)
    options = [*QUICK, "--repeats", "2", "--time-limit", "20"]
    status, (first, second) = run(tmp_path, *options, "--kernel", kernel)
    assert status == 1
    assert first[0] == verdict
    assert words in first[1]
    assert second[0] == "pass", second


def test_the_command_of_a_report_repeats_the_check(tmp_path):
    problem = SMALL.with_(mask="window", window_left=7, window_right=2, seed=5, dtype="bfloat16")
    cases = CheckCase(problem, "flash1", False, 2), CheckCase(SMALL, layout="sliced", scale=0.25, repeats=1)
    for case in cases:
        command = shell_command(case).split()[3:]
        assert command_line.main([*command, "--json", str(tmp_path / "a.json")]) == 0
        (found,) = json.loads((tmp_path / "a.json").read_text())["checks"]
        assert CheckCase.from_dict(found["case"]) == case


def test_the_command_in_a_report_names_the_kernel_as_it_was_given(tmp_path, monkeypatch):
    kernel_file(tmp_path, "return exact(query, key, value)")
    monkeypatch.chdir(tmp_path)
    (path,) = tmp_path.glob("*.py")
    given, report = f"./{path.name}:attention", tmp_path / "report.html"
    assert command_line.main([*QUICK, "--kernel", given, "--html", str(report)]) in (0, 1)
    assert f"python -m kernels.check --kernel {given} --shapes" in report.read_text()


def test_exit_status_is_the_verdict(capsys, tmp_path):
    status, _ = run(tmp_path, *QUICK, "--kernel", "flash2")
    assert status == 0
    assert "PASS        32x32 d16" in capsys.readouterr().out
    status, _ = run(tmp_path, *QUICK, "--shapes", "64", "--kernel", f"{BUGGY}:attention")
    assert status == 1
    said = capsys.readouterr().out
    assert "FAILS" in said
    assert "the accumulator is not rescaled" in said
    (tmp_path / "no.py").write_text("def attention(q, k, v):\n    raise NotImplementedError('not yet')\n")
    status, _ = run(tmp_path, *QUICK, "--kernel", f"{tmp_path}/no.py:attention")
    assert status == 2
    assert "2 not checked (it says that it does not take this problem)" in capsys.readouterr().out


def test_several_kernels_are_checked_side_by_side(capsys, tmp_path):
    both = ["--kernel", f"{BUGGY}:attention", "--kernel", f"{BUGGY}:attention_fixed"]
    status, found = run(tmp_path, *QUICK, "--shapes", "64,70", *both)
    assert status == 1
    assert [verdict for verdict, _ in found] == ["fail", "fail", "pass", "pass"]
    header, *rows = capsys.readouterr().out.strip().splitlines()[-3:]
    assert header.split() == ["case", "buggy_kernel.py:attention", "buggy_kernel.py:attention_fixed"]
    assert all("fail" in row and "pass" in row for row in rows)


def test_a_kernel_that_was_not_checked_is_not_covered_by_one_that_passes(tmp_path):
    (tmp_path / "broken.py").write_text("import nothing_such\n")
    status, found = run(tmp_path, *QUICK, "--kernel", "sdpa", "--kernel", f"{tmp_path}/broken.py:f")
    assert sorted(verdict for verdict, _ in found) == ["invalid", "invalid", "pass", "pass"]
    assert status == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--kernel", "flash9"], "kernel='flash9' is not accepted: expected one of flash_attention"),
        (["--kernel", "none.py:f"], "there is no file none.py here"),
        (["--shapes", "12y5"], "shapes='12y5' is not accepted"),
        (["--head-dim", "7"], "head_dim=7 is not accepted"),
        (["--mask", "round"], "mask='round' is not accepted"),
        (["--blocks", "64"], "expected two numbers"),
        (["--repeats", "0"], "repeats=0 is not accepted"),
        (["--kv-heads", "0"], "kv_heads=0 is not accepted"),
        (["--scale", "-1"], "scale=-1.0 is not accepted"),
        (["--file", "none.npz"], "none.npz"),
        (["--kernel", "sdpa_flash" if BACKEND == "interpreter" else "sdpa"], "on this device"),
    ],
)
def test_wrong_arguments_are_explained_and_exit_with_2(arguments, words, capsys):
    assert command_line.main(arguments) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("given", ["inf", "nan", "1e10", "0", "-3", "soon"])
def test_a_time_limit_that_no_clock_can_wait_for_is_refused(given, capsys):
    with pytest.raises(SystemExit) as caught:
        command_line.main([*QUICK, f"--time-limit={given}"])
    assert caught.value.code == 2
    assert f"'{given}' is not accepted: expected seconds, more than 0 and at most" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["json", "html"])
def test_a_report_that_could_not_be_written_is_refused_before_anything_is_checked(
    option, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(command_line, "WorkerClient", None)  # not started
    assert command_line.main([*QUICK, f"--{option}", str(tmp_path)]) == 2
    assert f"{option}='{tmp_path}' is not accepted: it is a folder" in capsys.readouterr().err
    assert command_line.main([*QUICK, f"--{option}", str(tmp_path / "none" / "a")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    monkeypatch.setattr("os.access", lambda path, mode: False)  # as for a user who may not write there
    assert command_line.main([*QUICK, f"--{option}", str(tmp_path / "a")]) == 2
    assert f"the folder {tmp_path} cannot be written" in capsys.readouterr().err


def test_a_report_that_cannot_be_written_after_all_leaves_the_verdict(tmp_path, capsys):
    folder = tmp_path / "folder"
    folder.mkdir()
    kernel = kernel_file(tmp_path, f"os.path.exists({str(folder)!r}) and os.rmdir({str(folder)!r})\nreturn v")
    reports = ["--json", str(folder / "a.json"), "--html", str(tmp_path / "a.html")]
    assert command_line.main([*QUICK, "--kernel", kernel, *reports]) == 1
    assert "error: the report was not written: " in capsys.readouterr().err
    assert (tmp_path / "a.html").exists()


@pytest.fixture
def saved(tmp_path):
    """A file with Q, K, V and a result that is `factor` times the right one."""

    def save(factor):
        problem = AttentionProblem(q_len=20, kv_len=30, head_dim=16, dtype="float32", mask="causal")
        trace = run_traced(problem.with_(block_m=16, block_n=16))
        query, key, value = (tensor.cpu().numpy() for tensor in make_inputs(problem, "cpu"))
        path = tmp_path / "mine.npz"
        np.savez(path, Q=query, K=key, V=value, O=trace.output * factor, lse=trace.lse)
        return ["--file", str(path), "--mask", "causal", "--forward"]

    return save


def test_a_result_computed_elsewhere_is_judged_as_it_is(saved, capsys):
    for factor, status in ((1, 0), (1.01, 1)):
        assert command_line.main(saved(factor)) == status
    assert "20x30" in capsys.readouterr().out


def test_a_kernel_that_is_named_is_judged_and_not_the_result_in_the_file(saved, capsys):
    assert command_line.main([*saved(1.5), "--kernel", "flash2"]) == 0
    said = capsys.readouterr().out
    assert "Judged: the kernel, on Q, K and V of the file" in said
    assert command_line.main(saved(1.5)) == 1
    assert "Judged: the O in the file" in capsys.readouterr().out


def test_a_shape_beside_a_file_is_refused_and_not_ignored(saved, capsys):
    assert command_line.main([*saved(1), "--shapes", "64"]) == 2
    assert "it is not accepted with --file" in capsys.readouterr().err
