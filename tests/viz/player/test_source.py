"""The source panel shows the kernel's own lines, and every phase that the player draws is marked in the kernel."""

import re

import pytest

from tests import ROOT
from viz.player.source import kernel_source
from viz.player.views import VIEWS

FLASH2 = VIEWS["flash2"].kernels[0].source


def test_lines_are_those_of_the_file():
    source = kernel_source(*FLASH2)
    lines = (ROOT / source.file).read_text().splitlines()
    shown = source.prologue + source.loop + source.epilogue
    assert len(shown) > 20
    for line in shown:
        assert lines[line.number - 1].strip() == line.text.strip()
        assert "record_" not in line.text
    assert [line.number for line in source.loop] == sorted(line.number for line in source.loop)


def test_phases_stand_in_the_order_of_a_tile_step():
    source = kernel_source(*FLASH2)
    assert source.phases(source.prologue) == ("load Q",)
    assert source.phases(source.loop) == (
        "load K",
        "QK^T",
        "mask",
        "row max",
        "exponentials",
        "rescale",
        "load V",
        "PV",
    )
    assert source.phases(source.epilogue) == ("store O, lse",)


def test_each_phase_holds_the_line_it_is_about():
    source = kernel_source(*FLASH2)
    about = {
        "load K": "k = load_tile",
        "QK^T": "scores = matmul(q",
        "row max": "new_row_max",
        "exponentials": "p = tl.exp2",
        "rescale": "acc * alpha",
    }
    about |= {"mask": "mask_scores", "load V": "v = load_tile", "PV": "acc = matmul"}
    for phase, words in about.items():
        assert any(words in line.text for line in source.loop if line.phase == phase), phase


def test_kernels_with_loops_of_their_own_are_cut_at_them():
    phases = {}
    for view in (VIEWS["flash1"], VIEWS["row_wise"]):
        for kernel in view.kernels:
            source = kernel_source(*kernel.source)
            phases[kernel.source] = [
                source.phases(part) for part in (source.prologue, source.loop, source.epilogue)
            ]
    outer, inner, _ = next(iter(phases.values()))
    assert outer == ("load K, V",)
    assert inner[0] == "load Q, O, m, l"
    assert inner[-1] == "store O, m, l, lse"
    first, second = list(phases.values())[1:]
    assert first == [("load Q",), ("load K", "QK^T", "row max"), ()]
    assert second == [("softmax",), ("load V", "PV"), ("store O",)]


@pytest.mark.parametrize("algorithm", VIEWS)
def test_the_script_knows_every_phase(algorithm):
    """A phase that loads or stores names its tensors; chip.js names what every other phase works on."""
    script = (ROOT / "viz" / "player" / "chip.js").read_text()
    known = re.search(r"const WORKS_ON = \{(.*?)\n\};", script, re.S)[1]
    for kernel in VIEWS[algorithm].kernels:
        source = kernel_source(*kernel.source)
        for phase in source.phases(source.prologue + source.loop + source.epilogue):
            assert phase.startswith(("load ", "store ")) or re.search(
                rf'"{re.escape(phase)}":|\b{re.escape(phase)}:', known
            ), phase


@pytest.mark.parametrize("algorithm", VIEWS)
def test_every_series_is_known_to_the_script(algorithm):
    script = (ROOT / "viz" / "player" / "rows.js").read_text()
    known = re.findall(r"^  (\w+): \{ name:", script, re.M)
    for kernel in VIEWS[algorithm].kernels:
        assert set(kernel.series) <= set(known)
