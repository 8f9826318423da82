"""A kernel that the interpreter runs but the compiler refuses is no pass: it fails, with file and line."""

from pathlib import Path

import pytest

from kernels.check.judge import run as judge_run
from kernels.check.subject import compiling
from kernels.device.runtime import INTERPRETED
from tests.kernels.check.kernels import planted
from tests.kernels.sanitizer import cases

if not INTERPRETED:
    pytest.skip("a GPU compiles what it runs", allow_module_level=True)

FILE, PLANTED = Path(cases.__file__), Path(planted.__file__)
LINES = FILE.read_text().splitlines()


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(compiling, "LIMIT_S", 60.0)


@pytest.fixture
def compiled(checked, tmp_path):
    def check(source, function="attention", **changes):
        path = source if isinstance(source, Path) else tmp_path / "mine.py"
        compiling._of = f"{path}:{function}"  # one process compiles them all: it takes 4 s to start
        return checked(source, function, compiles=True, **changes)

    return check


@pytest.mark.parametrize("function", cases.REFUSED_BY_THE_COMPILER)
def test_what_the_compiler_refuses_fails_with_its_line(function, compiled):
    line, words = cases.REFUSED_BY_THE_COMPILER[function]
    result = compiled(FILE, function, kv_len=40)
    assert result.verdict == "fail"
    assert result.tensor("O").passes
    (finding,) = result.findings
    assert finding.kind == "compile error"
    assert finding.source.startswith(line)
    assert LINES[finding.line - 1].strip() == finding.source
    assert "_attend" in finding.words
    assert words in finding.words
    assert finding.words in result.reason


def test_what_compiles_passes_and_names_the_kernels_of_both_passes(compiled):
    result = compiled(PLANTED, "right", gradients=True)
    assert result.verdict == "pass", result.reason
    assert any("_forward, _backward" in note for note in result.notes)


def test_a_kernel_that_compiles_for_an_a100_alone_passes(compiled):
    imported, first = "from triton.language.target_info import cuda_capability_geq\n", "    batch, head ="
    refused = f"    tl.static_assert(not cuda_capability_geq(9))\n{first}"
    source = PLANTED.read_text().replace(first, refused)
    result = compiled(imported + source, "right")
    assert result.verdict == "pass", result.reason
    assert any("A100" in note and "_forward" in note for note in result.notes)


def test_a_kernel_is_compiled_again_after_its_file_was_saved(compiled):
    for of, verdict in {"right": "pass", "type_changes": "fail"}.items():
        assert compiled(f"{FILE.read_text()}\nattention = {of}\n", kv_len=40).verdict == verdict


@pytest.mark.parametrize("body", ["sys.exit(3)", "os._exit(3)"])
def test_what_cannot_be_compiled_here_is_said_and_is_no_verdict(body, compiled):
    """Code that behaves otherwise when it is compiled costs the note alone, and not the next case."""
    guard = f"import os, sys\nif os.environ['TRITON_INTERPRET'] == '0':\n    {body}\n"
    result = compiled(f"{guard}{FILE.read_text()}\nattention = right\n")
    assert result.verdict == "pass", result.reason
    assert any(note.startswith("Not compiled for a GPU: ") and "3" in note for note in result.notes)


def test_what_launches_no_kernel_is_not_compiled(compiled, monkeypatch):
    monkeypatch.setattr(judge_run, "ask_compiler", None)
    source = "from torch.nn.functional import scaled_dot_product_attention as attention\n"
    assert compiled(source).verdict == "pass"
