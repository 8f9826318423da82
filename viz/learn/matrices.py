"""Small matrices with their numbers and the signs between them, as HTML that wraps on a narrow screen."""

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


def looks(shape: tuple[int, ...], rest: str = "plain", **regions: tuple[slice, slice]) -> np.ndarray:
    """Looks (rows, columns): `rest`, except in the regions, which are named by their look. Later ones win."""
    array = np.full(shape, rest, dtype=object)
    for look, region in regions.items():
        array[region] = look
    return array


def matrices_html(parts: Sequence[Matrix | str], colors: theme.Palette) -> str:
    """One equation: matrices, and the signs between them as strings. Hovering shows all digits."""
    drawn, sign, columns = "", "", 0
    for part in parts:  # a sign stays with the matrix after it, so that lines begin with their signs
        if isinstance(part, Matrix):
            drawn += f'<div class="term-of">{sign}{_figure(part, colors)}</div>'
            columns += part.values.shape[1] if part.values.ndim == 2 else 1
            sign = ""
        else:
            sign += f'<span class="sign">{part}</span>'
    size = "1.15rem" if columns <= LARGE_UP_TO else "0.95rem"
    return f'<div class="matrices" style="font-size:{size}">{drawn}{sign}</div>'


def _figure(matrix: Matrix, colors: theme.Palette) -> str:
    values = matrix.values if matrix.values.ndim == 2 else matrix.values[:, None]
    finite = np.abs(values[np.isfinite(values)])
    largest, whole = finite.max(initial=0.0) or 1.0, bool((finite == np.round(finite)).all())
    rows = ""
    for row, numbers in enumerate(values.tolist()):
        entries = (_entry(matrix, value, largest, whole, row, column) for column, value in enumerate(numbers))
        marked = ' class="marked"' if row == matrix.marked_row else ""
        rows += f"<tr{marked}>{''.join(entries)}</tr>"
    shape = " × ".join(map(str, matrix.values.shape))
    caption = f"<figcaption>{matrix.label} <small>({shape})</small></figcaption>"
    note = f"<small>{matrix.note}</small>" if matrix.note else ""
    lit, color = symbol_class(matrix.label.partition(" ")[0]), getattr(colors, matrix.color)
    return f'<figure class="{lit}" style="--tensor:{color}">{caption}<table>{rows}</table>{note}</figure>'


def _entry(matrix: Matrix, value: float, largest: float, whole: bool, row: int, column: int) -> str:
    tile_rows, tile_columns = matrix.tile or (row + 1, column + 1)
    names = ["top"] if row and row % tile_rows == 0 else []
    names += ["left"] if column and column % tile_columns == 0 else []
    text, style = format_entry(value, whole), ""
    if matrix.looks is None:
        tint = STRONGEST_TINT * min(abs(value) / largest, 1.0) if math.isfinite(value) else 0.0
        style = f' style="--tint:{tint:.0f}%"'
    else:
        names.insert(0, matrix.looks[row, column])
        text = "" if names[0] == "empty" else text
    return f'<td class="{" ".join(names)}" title="{value!r}"{style}>{text}</td>'
