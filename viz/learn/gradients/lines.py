"""The lines of the derivation in the Gradients chapter: `derivation.toml`, and the reader's numbers in it."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernels.lessons.gradients import GradientLesson
from viz.learn.gradients.maths import CHECKED_AGAINST, derived, several_heads
from viz.learn.matrices import Matrix
from viz.learn.words import filled
from viz.shared import theme
from viz.shared.formats import significant


@dataclass(frozen=True)
class DerivationLine:
    """One line of the derivation, as `derivation.toml` has it."""

    words: str
    formulas: tuple[str, ...]
    equations: tuple[str, ...]
    checks: tuple[str, ...] = ()
    """The results to check: keys of LINE_WORDS."""
    checked_against: str = ""
    """What is differentiated, if it is not the loss by the quantity itself."""


DOCUMENT = tomllib.loads(Path(__file__).with_name("derivation.toml").read_text("utf-8"))
LINES = {name: DerivationLine(**line) for name, line in DOCUMENT["lines"].items()}
"""In the order of the derivation. The URL uses the keys."""
LINE_WORDS: dict[str, str] = DOCUMENT["results"]
ROW_BY_ROW = ("dS deltas", "dS log")
"""Lines that show one row of S at a time."""


def numbers_of(lesson: GradientLesson, row: int, heads: int) -> dict[str, int | str]:
    """The numbers in the words and equations of a line."""
    length, dim = lesson.length, lesson.dim
    shape = {"length": length, "square": length**2, "dim": dim, "size": dim // heads}
    return {"row": row, "heads": heads, "scale": significant(lesson.scale), **shape}


def equations_of(name: str, lesson: GradientLesson, row: int, heads: int) -> list[list[Matrix | str]]:
    """The equations of a line as matrices of the reader's numbers and the signs between them."""
    values = several_heads(lesson, heads) if name == "heads" else derived(lesson)
    marked_row = row if name in ROW_BY_ROW else None

    def of_each_head(part: re.Match) -> str:
        return "".join(f"{{{part[1]}_{head}}}" for head in range(heads))

    drawn = []
    for equation in LINES[name].equations:
        text = filled(re.sub(r"{(\w+)_\*}", of_each_head, equation), numbers_of(lesson, row, heads))
        pieces = re.split("{(.+?)}", text)  # sign, name, sign and so on
        parts = [
            _matrix(piece, values, row, marked_row) if place % 2 else piece.strip()
            for place, piece in enumerate(pieces)
        ]
        drawn.append([part for part in parts if part != ""])
    return drawn


def _matrix(shown: str, values: Mapping[str, np.ndarray], row: int, marked_row: int | None) -> Matrix:
    name = shown.removesuffix("ᵀ").removesuffix("[row]")
    array, label = values[name], re.sub(r"_(\w)", r"<sub>\1</sub>", CHECKED_AGAINST.get(name, name))
    if "[row]" in shown:
        array, label, marked_row = array[row], f"{label}, row {row}", None
    if shown.endswith("ᵀ"):
        array, label = array.T, f"{label}<sup>T</sup>"
    color = "bad" if name == "difference" else theme.tensor_entry(name.partition("_")[0])
    return Matrix(label, array, color, marked_row=marked_row)
