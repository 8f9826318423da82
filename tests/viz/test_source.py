"""The source panel shows the kernel's own lines, and every phase that the player draws is marked in the kernel."""

import re
from pathlib import Path

from viz.player.data import SOURCES
from viz.player.source import ROOT, kernel_source


def test_lines_are_those_of_the_file():
    source = kernel_source(*SOURCES["flash2"])
    lines = (ROOT / source.file).read_text().splitlines()
    shown = source.prologue + source.loop + source.epilogue
    assert len(shown) > 20
    for line in shown:
        assert lines[line.number - 1].strip() == line.text.strip()
        assert "record_" not in line.text
    assert [line.number for line in source.loop] == sorted(line.number for line in source.loop)


def test_phases_stand_in_the_order_of_a_tile_step():
    source = kernel_source(*SOURCES["flash2"])
    assert source.phases(source.prologue) == ("load Q",)
    assert source.phases(source.loop) == ("load K", "QK^T", "mask", "row max", "exponentials", "rescale", "load V", "PV")
    assert source.phases(source.epilogue) == ("store O, lse",)


def test_each_phase_holds_the_line_it_is_about():
    source = kernel_source(*SOURCES["flash2"])
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


def test_the_script_knows_every_phase():
    """chip.js names, for each phase, what it works on."""
    source = kernel_source(*SOURCES["flash2"])
    script = (Path(__file__).parents[2] / "viz" / "player" / "chip.js").read_text()
    active = re.search(r"const ACTIVE = \{(.*?)\};", script, re.S)[1]
    for phase in source.phases(source.prologue + source.loop + source.epilogue):
        assert re.search(rf'"{re.escape(phase)}":|\b{re.escape(phase)}:', active), phase
