"""Small matrices as tables of numbers with their tiles, as HTML: one look a cell, wrapping where the page is narrow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from viz import theme

LOOKS = ("plain", "now", "done", "waiting", "empty", "bad")
"""A cell is untouched, in the tile at work, finished, not reached yet, never stored (hatched, no number), or wrong."""


@dataclass(frozen=True, eq=False)
class Grid:
    """A matrix to draw. `looks` has the shape of `values`; `tile` is (rows, columns) of a tile, drawn by heavier lines."""

    title: str
    values: np.ndarray
    color: str
    """Palette entry."""
    looks: np.ndarray
    tile: tuple[int, int]
    note: str = ""


def looks(shape: tuple[int, int], rest: str = "plain", **regions: tuple[slice, slice]) -> np.ndarray:
    """Looks (rows, columns): `rest` everywhere but in the regions, named by their look; later ones lie on top."""
    array = np.full(shape, rest, dtype=object)
    for look, region in regions.items():
        array[region] = look
    return array


def grids_html(items: list[Grid | str], colors: theme.Palette) -> str:
    """Grids side by side with signs such as "×" between them."""
    drawn = "".join(_grid(item, colors) if isinstance(item, Grid) else f'<span class="sign">{item}</span>' for item in items)
    return f'{_style(colors)}<div class="number-grids">{drawn}</div>'


def _grid(grid: Grid, colors: theme.Palette) -> str:
    rows = "".join(
        "<tr>" + "".join(_cell(grid, row, column) for column in range(grid.values.shape[1])) + "</tr>" for row in range(grid.values.shape[0])
    )
    note = f"<small>{grid.note}</small>"
    color = getattr(colors, grid.color)
    return f'<figure style="--tensor: {color}"><figcaption>{grid.title}</figcaption><table>{rows}</table>{note}</figure>'


def _cell(grid: Grid, row: int, column: int) -> str:
    look = grid.looks[row, column]
    cuts = [name for name, index, size in (("top", row, grid.tile[0]), ("left", column, grid.tile[1])) if index and index % size == 0]
    text = "" if look == "empty" else theme.format_number(grid.values[row, column])
    return f'<td class="{" ".join([look, *cuts])}">{text}</td>'


def _style(colors: theme.Palette) -> str:
    hatch = f"repeating-linear-gradient(135deg, transparent 0 5px, {colors.line} 5px 6px)"
    return f"""<style>
.number-grids {{ display: flex; flex-wrap: wrap; gap: 0.5rem 0.8rem; align-items: center; color: {colors.text}; }}
.number-grids figure {{ margin: 0; display: flex; flex-direction: column; align-items: center; }}
.number-grids figcaption {{ font-weight: 600; font-size: 1.1rem; color: var(--tensor); white-space: nowrap; }}
.number-grids small {{ color: {colors.muted}; font-size: 0.9rem; min-height: 1.4rem; }}
.number-grids .sign {{ font-size: 1.6rem; color: {colors.muted}; }}
.number-grids table {{ border-collapse: collapse; border: 2px solid var(--tensor); font-variant-numeric: tabular-nums; margin: 0; }}
.number-grids td {{ min-width: 2.7rem; height: 2.1rem; padding: 0 0.2rem; text-align: center; border: 1px solid {colors.line}; font-size: 1.05rem; }}
.number-grids td.top {{ border-top: 2px solid var(--tensor); }}
.number-grids td.left {{ border-left: 2px solid var(--tensor); }}
.number-grids td.now {{ background: color-mix(in srgb, var(--tensor) 30%, transparent); font-weight: 700; }}
.number-grids td.done {{ background: color-mix(in srgb, var(--tensor) 10%, transparent); }}
.number-grids td.waiting {{ color: {colors.muted}; }}
.number-grids td.empty {{ background: {hatch}; }}
.number-grids td.bad {{ color: {colors.bad}; font-weight: 700; text-decoration: underline wavy; }}
</style>"""
