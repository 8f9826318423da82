"""README.md and CONTRIBUTING.md against what they describe: speeds, paths, commands."""

import re
import runpy
from statistics import geometric_mean

import pytest

from kernels.compare import markdown_table, time_ratios
from kernels.measure.ranks import ONE_GPU, share_of_ideal
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


def test_times_and_shares_of_several_gpus_are_those_of_the_shipped_recording():
    llama = [time for time in recorded_document("ranks").ranks if time.problem.kv_heads == 8]
    ways = [(ONE_GPU, ""), *((way, "zigzag") for way in ("ring", "all_gather", "all_to_all"))]
    ways.append(("torch all-gather", ""))

    def cell(length, *way):
        of = {t.direction: t for t in llama if (t.problem.q_len, t.method, t.layout) == (length, *way)}
        if not of:
            return "–"
        unit, name = (1e3, "s") if length > 1 << 17 else (1, "ms")
        numbers = (f"{of[each].timing.median_ms / unit:#.3g}" for each in ("forward", "backward"))
        return " / ".join(number.removesuffix(".") for number in numbers) + f" {name}"

    for name, length in (("32k", 1 << 15), ("128k", 1 << 17), ("1M", 1 << 20)):
        assert f"| {name}, forward / backward | {' | '.join(cell(length, *way) for way in ways)} |" in README
    shares = []
    for length in (1 << 15, 1 << 17):
        both = [t for t in llama if t.problem.q_len == length and (t.method, t.layout) == ways[1]]
        ideal = [t.timing.median_ms * share_of_ideal(t, llama) for t in both]
        shares += [share_of_ideal(both[0], llama), sum(ideal) / sum(t.timing.median_ms for t in both)]
    said = "The ring comes to {:.2f} of four times one GPU at 8k tokens per GPU, and to {:.2f} at 32k "
    said += "(forward; with the gradients {:.2f} and {:.2f})."
    assert said.format(*shares[::2], *shares[1::2]) in README


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
