"""The words of pages: their marks, and that each section is drawn by some page."""

import re

import pytest

from tests import ROOT
from viz.shared.words import SLOT, Words, filled

FOLDERS = sorted(path.parent for path in (ROOT / "viz").rglob("words.md"))


class Tile:
    rows = (3, 4.5)


def test_a_number_is_written_as_its_mark_says():
    given = {"n": 1234567, "tile": Tile(), "one": 1}
    assert filled("{{n:,}} {{n:bytes}} {{tile.rows[1]:.2f}}", given) == "1,234,567 1.23 MB 4.50"
    assert filled("{{one:count query tile}}, {{n:number 2}}", given) == "1 query tile, 1.2e+06"
    assert filled(r"$\frac{{{one}}}{2}$ {word}", given) == r"$\frac{1}{2}$ {word}"
    with pytest.raises(KeyError, match="absent"):
        filled("{{absent}}", given)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_section_is_drawn_and_each_part_is_a_section_or_known_to_the_page(folder):
    code = "".join(path.read_text() for path in sorted(folder.glob("*.py")))
    sections = Words(str(folder / "page.py")).sections
    blocks = [block for text in sections.values() for block in text.split("\n\n")]
    of_slots = [block for block in blocks if re.fullmatch(r"(<[\w:]+>\s*)+", block)]
    slots = {slot for block in of_slots for slot, _ in SLOT.findall(block)}
    names = [name for name in sections if name not in slots and f'f"{name.partition(" ")[0]} {{' not in code]
    assert [name for name in names if not re.search(rf"""["']{name}["']""", code)] == []
    assert [slot for slot in slots if slot not in sections and not re.search(rf"\b{slot}\b", code)] == []
