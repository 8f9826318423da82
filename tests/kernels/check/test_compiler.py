"""A kernel that the interpreter runs but the compiler refuses is no pass: it fails, with file and line."""

from pathlib import Path

import pytest

from kernels.check.cases import CheckCase
from kernels.check.run import run_check
from kernels.check.user_kernel import UserKernel, name_user_kernels
from kernels.device.runtime import INTERPRETED
from kernels.problem import AttentionProblem

if not INTERPRETED:
    pytest.skip("a GPU compiles what it runs", allow_module_level=True)

FILE = Path(__file__).parent / "uncompiled.py"
LINES = FILE.read_text().splitlines()


def checked(file, function="attention", gradients=False):
    name_user_kernels([UserKernel.parse(f"{file}:{function}")])
    problem = AttentionProblem(q_len=16, kv_len=40, head_dim=16)
    return run_check(CheckCase(problem, "user", gradients, repeats=1), compiles=True)


@pytest.mark.parametrize(
    ("function", "line", "words"),
    [
        ("type_changes", "for first in range(0, kv_len, step):", "Loop-carried variable l"),
        ("global_number", "step = BLOCK", "Cannot access global variable BLOCK"),
        (
            "list_in_helper",
            "return tl.where(keys[None, :] < kv_len, scores, min(",
            "min requires at least 2 values",
        ),
    ],
)
def test_what_the_compiler_refuses_fails_with_its_line(function, line, words):
    result = checked(FILE, function)
    assert result.verdict == "fail"
    assert result.tensor("O").passes
    (finding,) = result.findings
    assert finding.kind == "compile error"
    assert finding.source.startswith(line)
    assert LINES[finding.line - 1].strip() == finding.source
    assert words in finding.words
    assert result.reason.startswith("Triton's compiler refuses _attend for an A100 and for an H100: ")
    assert result.reason.endswith(f"({finding.place})")


def test_what_compiles_passes_and_says_so():
    result = checked(FILE, "right")
    assert result.verdict == "pass", result.reason
    assert any(note.startswith("Compiled, without a GPU, for an A100 or an H100") for note in result.notes)


def test_the_backward_pass_is_compiled_too():
    result = checked(Path(__file__).parent / "planted.py", "right", gradients=True)
    assert result.verdict == "pass", result.reason
    assert any("_forward, _backward" in note for note in result.notes)


def test_a_kernel_is_compiled_anew_after_its_file_was_saved(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE.read_text().replace("right =", "attention ="))
    assert checked(path).verdict == "pass"
    path.write_text(FILE.read_text().replace("type_changes =", "attention ="))
    assert checked(path).verdict == "fail"


@pytest.mark.parametrize(
    ("body", "why"), [("sys.exit(3)", "SystemExit: 3"), ("os._exit(3)", "the process of the compiler ended")]
)
def test_what_cannot_be_compiled_here_is_said_and_is_no_verdict(body, why, tmp_path):
    """Code that behaves otherwise when it is compiled costs the note alone, and not the next case."""
    path = tmp_path / "mine.py"
    guard = f"import os, sys\nif os.environ['TRITON_INTERPRET'] == '0':\n    {body}\n"
    path.write_text(guard + FILE.read_text().replace("right =", "attention ="))
    result = checked(path)
    assert result.verdict == "pass", result.reason
    assert any(note.startswith("Not compiled for a GPU: ") and why in note for note in result.notes)
    assert checked(FILE, "type_changes").verdict == "fail"
