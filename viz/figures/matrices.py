"""Small matrices with their numbers, side by side with the signs between them, as HTML that wraps on a narrow screen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from viz import theme

LARGE_UP_TO = 14
"""Columns of one equation up to which its numbers are drawn large enough for the last row of a room."""

STRONGEST_TINT = 50
"""Per cent of the tensor's colour behind the largest value: more would cost the number its contrast."""


@dataclass(frozen=True, eq=False)
class Matrix:
    """One matrix (rows, columns), or a vector (rows,) drawn as a column. `label` may hold HTML such as <sup>T</sup>."""

    label: str
    values: np.ndarray
    color: str
    marked_row: int | None = None
    """A row drawn with a frame."""
    columns_in_block: int = 0
    """Draw a rule after every so many columns; 0 for none."""


def matrices_html(parts: Sequence[Matrix | str], colors: theme.Palette) -> str:
    """One equation: matrices and, as plain strings, the signs between them. Hovering a cell shows the number in full."""
    drawn = "".join(_table(part, colors) if isinstance(part, Matrix) else _sign(part, colors) for part in parts)
    columns = sum(part.values.shape[1] if part.values.ndim == 2 else 1 for part in parts if isinstance(part, Matrix))
    size = "1.15rem" if columns <= LARGE_UP_TO else "0.95rem"
    style = f"display:flex;flex-wrap:wrap;align-items:center;gap:0.5rem 0.9rem;padding:0.3rem 0;max-width:100%;font-size:{size}"
    return f'<div style="{style}">{drawn}</div>'


def _sign(text: str, colors: theme.Palette) -> str:
    return f'<span style="font-size:1.3em;color:{colors.text};white-space:nowrap">{text}</span>'


def _table(matrix: Matrix, colors: theme.Palette) -> str:
    values = matrix.values if matrix.values.ndim == 2 else matrix.values[:, None]
    finite = np.abs(values[np.isfinite(values)])
    largest = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    cells = [[_cell(value, largest, matrix, at, column, colors) for column, value in enumerate(row)] for at, row in enumerate(values.tolist())]
    rows = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    shape = " × ".join(map(str, matrix.values.shape))
    label = f'<span style="font-weight:600;color:{matrix.color}">{matrix.label}</span>'
    caption = f'{label} <span style="color:{colors.muted};font-size:0.85em">({shape})</span>'
    table_style = f"border-collapse:collapse;font-size:inherit;color:{colors.text};font-variant-numeric:tabular-nums"
    table = f'<table style="{table_style}">{rows}</table>'
    return f'<div style="max-width:100%;overflow-x:auto"><div style="margin-bottom:0.15rem;white-space:nowrap">{caption}</div>{table}</div>'


def _cell(value: float, largest: float, matrix: Matrix, row: int, column: int, colors: theme.Palette) -> str:
    tint = STRONGEST_TINT * min(abs(value) / largest, 1.0) if math.isfinite(value) else 0.0
    style = [
        f"background:color-mix(in srgb,{matrix.color} {tint:.0f}%,transparent)",
        f"border:1px solid {colors.line}",
        "padding:0.12em 0.4em;min-width:3em;text-align:right;white-space:nowrap",
    ]
    if matrix.columns_in_block and (column + 1) % matrix.columns_in_block == 0 and column + 1 < matrix.values.shape[-1]:
        style.append(f"border-right:3px solid {colors.text}")
    if row == matrix.marked_row:
        style.append(f"border-top:2px solid {colors.now};border-bottom:2px solid {colors.now}")
    return f'<td title="{value!r}" style="{";".join(style)}">{theme.format_entry(value)}</td>'
