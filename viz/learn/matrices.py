"""Small matrices with their numbers and the signs between them, as HTML that wraps on a narrow screen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from viz.shared import theme
from viz.shared.formats import format_entry
from viz.shared.glossary import symbol_class

LARGE_UP_TO = 14
"""An equation with at most this many columns gets numbers large enough for the last row of a room."""
STRONGEST_TINT = 50
"""Per cent of the matrix's colour behind its largest value. With more, the number would be hard to read."""


@dataclass(frozen=True, eq=False)
class Matrix:
    """One matrix (rows, columns), or a vector (rows,) drawn as a column."""

    label: str
    """May contain HTML such as <sup>T</sup>."""
    values: np.ndarray
    color: str
    """Palette entry."""
    looks: np.ndarray | None = None
    """(rows, columns): the look of each entry. None tints the entries by magnitude.

    "plain"; "now": in the tile at work; "done": finished; "empty": never stored (hatched, without a number);
    "bad": wrong.
    """
    tile: tuple[int, int] | None = None
    """(rows, columns) of a tile; heavier lines show the tiles."""
    note: str = ""
    """Small print below the matrix."""
    marked_row: int | None = None
    """A row with a frame."""


def looks(shape: tuple[int, int], rest: str = "plain", **regions: tuple[slice, slice]) -> np.ndarray:
    """Looks (rows, columns): `rest`, except in the regions, which are named by their look. Later ones win."""
    array = np.full(shape, rest, dtype=object)
    for look, region in regions.items():
        array[region] = look
    return array


def matrices_html(parts: Sequence[Matrix | str], colors: theme.Palette) -> str:
    """One equation: matrices, and the signs between them as strings. Hovering shows all digits."""
    drawn, sign = [], ""
    for part in parts:  # a sign stays with the matrix after it, so that lines begin with their signs
        if isinstance(part, Matrix):
            drawn.append(f'<div class="term-of">{sign}{_figure(part, colors)}</div>')
            sign = ""
        else:
            sign += f'<span class="sign">{part}</span>'
    if sign:
        drawn.append(sign)
    matrices = [part for part in parts if isinstance(part, Matrix)]
    columns = sum(matrix.values.shape[1] if matrix.values.ndim == 2 else 1 for matrix in matrices)
    size = "1.15rem" if columns <= LARGE_UP_TO else "0.95rem"
    return f'<div class="matrices" style="font-size:{size}">{"".join(drawn)}</div>'


def _figure(matrix: Matrix, colors: theme.Palette) -> str:
    values = matrix.values if matrix.values.ndim == 2 else matrix.values[:, None]
    finite = np.abs(values[np.isfinite(values)])
    largest = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    whole = bool((finite == np.round(finite)).all())
    rows = []
    for row, numbers in enumerate(values.tolist()):
        entries = "".join(
            _entry(matrix, value, largest, whole, row, column) for column, value in enumerate(numbers)
        )
        rows.append(
            f'<tr class="marked">{entries}</tr>' if row == matrix.marked_row else f"<tr>{entries}</tr>"
        )
    shape = " × ".join(map(str, matrix.values.shape))
    caption = f"<figcaption>{matrix.label} <small>({shape})</small></figcaption>"
    note = f"<small>{matrix.note}</small>" if matrix.note else ""
    color = getattr(colors, matrix.color)
    lit = symbol_class(matrix.label.partition(" ")[0])
    table = f"<table>{''.join(rows)}</table>"
    return f'<figure class="{lit}" style="--tensor:{color}">{caption}{table}{note}</figure>'


def _entry(matrix: Matrix, value: float, largest: float, whole: bool, row: int, column: int) -> str:
    tile = matrix.tile or (0, 0)
    names = [
        name
        for name, index, size in (("top", row, tile[0]), ("left", column, tile[1]))
        if size and index and index % size == 0
    ]
    text, style = format_entry(value, whole), ""
    if matrix.looks is None:
        tint = STRONGEST_TINT * min(abs(value) / largest, 1.0) if math.isfinite(value) else 0.0
        style = f' style="--tint:{tint:.0f}%"'
    else:
        names.insert(0, matrix.looks[row, column])
        text = "" if names[0] == "empty" else text
    return f'<td class="{" ".join(names)}" title="{value!r}"{style}>{text}</td>'
