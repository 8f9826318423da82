"""The plugin of pytest: cases as tests, with the configuration of examples/gate."""

import json
import re
import shlex
import shutil

import pytest

from kernels.check import command
from tests import BUGGY_KERNEL, ROOT

GATE = ROOT / "examples" / "gate"
SIZE = "--head-dim 16 --repeats 1 --forward"


class Recorder:
    """The outcome of each test by its id, and the text of those that did not pass."""

    def __init__(self):
        self.outcomes, self.texts = {}, {}

    def pytest_runtest_logreport(self, report):
        if report.when == "call":
            self.outcomes[report.nodeid], self.texts[report.nodeid] = report.outcome, report.longreprtext


@pytest.fixture
def gate(here, tmp_path, monkeypatch):
    """Runs pytest in a user's folder, without the worker process; returns exit status and Recorder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    shutil.copy(BUGGY_KERNEL, "my_kernel.py")
    shutil.copy(GATE / "pytest.ini", "pytest.ini")

    def run(*arguments, ini=True):
        recorder = Recorder()
        config = [] if ini else ["-c", str(tmp_path / "none.ini"), "-p", "kernels.check.pytest_plugin"]
        (tmp_path / "none.ini").touch()
        return pytest.main(["-p", "no:cacheprovider", *config, *arguments], [recorder]), recorder

    return run


def test_the_battery_of_the_example_runs_beside_other_tests_and_is_selected_as_they_are(gate, tmp_path):
    (tmp_path / "test_other.py").write_text("def test_other():\n    pass\n")
    status, found = gate("-k", "20x7 or 33x290 or verdict or test_other")
    assert status == 1
    other, wrong, _, whole = found.outcomes
    assert other == "test_other.py::test_other"
    assert wrong.startswith("my_kernel.py:attention::33x290")
    assert whole == "my_kernel.py:attention::verdict"
    assert [*found.outcomes.values()] == ["passed", "failed", "passed", "failed"]
    assert "the accumulator is not rescaled" in found.texts[wrong]
    assert "1 of 2 cases fail" in found.texts[whole]


def test_what_is_not_checked_is_skipped_and_too_few_fail(gate, capsys):
    kernel = f"--flash-check=my_kernel.py:attention_fixed {SIZE}"
    status, found = gate(f"{kernel} --shapes 32,33 --json a.json", ini=False)
    assert status == 0
    assert [*found.outcomes.values()] == ["passed"] * 3
    assert "Not the battery, but the cases that are asked for by --shapes" in capsys.readouterr().out
    with open("a.json") as file:
        assert len(json.load(file)["checks"]) == 2
    status, found = gate(f"{kernel} --shapes 32 --head-dim 16,48,80", ini=False)
    assert status == 1
    assert [*found.outcomes.values()] == ["passed", "skipped", "skipped", "failed"]


@pytest.mark.parametrize("text", ["none.py:f", "my_kernel.py:attention --shapes 1y2", "flash2 --no"])
def test_a_bad_call_is_refused(text, gate, capsys):
    status, found = gate("--flash-check", text, ini=False)
    assert (status, found.outcomes) == (pytest.ExitCode.USAGE_ERROR, {})
    assert "--flash-check: " in capsys.readouterr().err


def test_the_action_of_the_example_calls_what_there_is(gate):
    (call,) = re.findall("run: python -m kernels.check (.*)", (GATE / "flash-check.yml").read_text())
    plan = command.plan(shlex.split(call))
    assert plan.named["user"].function == "attention"
    assert plan.arguments.sarif.name in (GATE / "flash-check.yml").read_text().partition("sarif_file:")[2]
