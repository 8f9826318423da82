"""A kernel that the interpreter runs but the compiler refuses is no pass: it fails, with file and line."""

from pathlib import Path

import pytest

from kernels.check.case.cases import CheckCase
from kernels.check.judge import run as judge_run
from kernels.check.judge.run import run_check
from kernels.check.subject import compiling
from kernels.check.subject.user_kernel import UserKernel, name_user_kernels
from kernels.device.runtime import INTERPRETED
from kernels.problem import AttentionProblem
from tests.kernels.check.kernels import planted
from tests.kernels.sanitizer import cases

if not INTERPRETED:
    pytest.skip("a GPU compiles what it runs", allow_module_level=True)

FILE, PLANTED = Path(cases.__file__), Path(planted.__file__)
LINES = FILE.read_text().splitlines()


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(compiling, "LIMIT_S", 60.0)


def checked(file, function="attention", gradients=False):
    name_user_kernels([UserKernel.parse(f"{file}:{function}")])
    problem = AttentionProblem(q_len=16, kv_len=40, head_dim=16)
    return run_check(CheckCase(problem, "user", gradients, repeats=1), compiles=True)


@pytest.mark.parametrize("function", cases.REFUSED_BY_THE_COMPILER)
def test_what_the_compiler_refuses_fails_with_its_line(function):
    line, words = cases.REFUSED_BY_THE_COMPILER[function]
    result = checked(FILE, function)
    assert result.verdict == "fail"
    assert result.tensor("O").passes
    (finding,) = result.findings
    assert finding.kind == "compile error"
    assert finding.source.startswith(line)
    assert LINES[finding.line - 1].strip() == finding.source
    assert "_attend" in finding.words
    assert words in finding.words
    assert finding.words in result.reason


def test_what_compiles_passes_and_names_the_kernels_of_both_passes():
    result = checked(PLANTED, "right", gradients=True)
    assert result.verdict == "pass", result.reason
    assert any("_forward, _backward" in note for note in result.notes)


def test_a_kernel_is_compiled_again_after_its_file_was_saved(tmp_path):
    path = tmp_path / "mine.py"
    for of, verdict in {"right": "pass", "type_changes": "fail"}.items():
        path.write_text(f"{FILE.read_text()}\nattention = {of}\n")
        assert checked(path).verdict == verdict


@pytest.mark.parametrize("body", ["sys.exit(3)", "os._exit(3)"])
def test_what_cannot_be_compiled_here_is_said_and_is_no_verdict(body, tmp_path):
    """Code that behaves otherwise when it is compiled costs the note alone, and not the next case."""
    path = tmp_path / "mine.py"
    guard = f"import os, sys\nif os.environ['TRITON_INTERPRET'] == '0':\n    {body}\n"
    path.write_text(f"{guard}{FILE.read_text()}\nattention = right\n")
    result = checked(path)
    assert result.verdict == "pass", result.reason
    assert any(note.startswith("Not compiled for a GPU: ") and "3" in note for note in result.notes)


def test_what_launches_no_kernel_is_not_compiled(tmp_path, monkeypatch):
    path = tmp_path / "mine.py"
    path.write_text("from torch.nn.functional import scaled_dot_product_attention as attention\n")
    monkeypatch.setattr(judge_run, "ask_compiler", None)
    assert checked(path).verdict == "pass"
