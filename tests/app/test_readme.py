"""README.md and CONTRIBUTING.md against what they describe: speeds, paths, commands."""

import re
import runpy
from statistics import geometric_mean

import pytest

from kernels.compare import markdown_table, time_ratios
from kernels.recordings import recorded_document
from tests import ROOT

README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
COMMANDS = sorted(set(re.findall(r"python -m ((?:kernels|viz)\.\w+)", README + CONTRIBUTING)))


def test_the_table_of_speeds_is_that_of_the_shipped_recording():
    for name in ("sweeps", "energy", "masks"):
        assert markdown_table(time_ratios(recorded_document(name).measurements)) in README


def test_the_ratio_of_decoding_steps_is_that_of_the_shipped_recording():
    steps = [each for each in recorded_document("models").measurements if each.problem.q_len == 1]
    both = [[each.result(peer).timing.median_ms for peer in ("sdpa_cudnn", "ours")] for each in steps]
    ratios = [theirs / ours for theirs, ours in both]
    mean, least = f"{geometric_mean(ratios):.2f}", f"{min(ratios):.2f}"
    faster = f"faster in {sum(ratio < 1 for ratio in ratios)} of {len(ratios)}"
    assert f"cuDNN takes {mean} of our time in the mean and {least} at\nleast; it is {faster}" in README


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_every_path_that_is_named_exists(text):
    named = re.findall(r"`((?:kernels|viz|tests|examples)/[\w/*.]+)`", text) + re.findall(
        r"\]\(([\w/.]+)\)", text
    )
    assert named
    for path in named:
        assert list(ROOT.glob(path.rstrip("/"))), path


@pytest.mark.parametrize("module", COMMANDS)
def test_every_command_can_be_run(module, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [module, "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module(module, run_name="__main__")
    assert capsys.readouterr().out.startswith("usage:")
