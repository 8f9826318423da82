"""What the command line names after `--`."""

from pathlib import Path

import pytest

from kernels.problem import InvalidProblem
from viz.shared.options import named_file, named_kernels


@pytest.fixture
def command_line(monkeypatch):
    def given(*words):
        monkeypatch.setattr("sys.argv", ["app.py", *words])

    return given


def test_a_kernel_is_checked_when_it_is_named_and_a_talk_is_not(command_line):
    command_line("--other", "x")
    assert (named_kernels(), named_file("--talk")) == ([], None)
    for words in (("--talk", "a.toml"), ("--kernel=k.py:f", "--talk=a.toml")):
        command_line(*words)
        assert named_file("--talk") == Path("a.toml")
    command_line("--talk", "a.toml", "--kernel", "nothing")
    with pytest.raises(InvalidProblem, match="expected a Python file"):
        named_kernels()
    command_line("--kernel")
    with pytest.raises(InvalidProblem, match="expected a Python file"):
        named_kernels()


def test_several_kernels_are_named_in_their_order(command_line, tmp_path):
    for name in ("b.py", "a.py"):
        (tmp_path / name).write_text("")
    command_line("--kernel", f"{tmp_path}/b.py:f", f"--kernel={tmp_path}/a.py:g", "--talk", "t.toml")
    assert [kernel.name for kernel in named_kernels()] == ["b.py:f", "a.py:g"]
    command_line(*(["--kernel", f"{tmp_path}/a.py:g"] * 9))
    with pytest.raises(InvalidProblem, match="expected at most 8"):
        named_kernels()
