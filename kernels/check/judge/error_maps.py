"""Where the errors are: maps of the largest error in each cell, and their bytes.

This file imports neither torch nor triton.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np

FINITE, NOT_FINITE_AS_EXACT, MISSING, UNEXPECTED = 0, 1, 2, 3
"""Codes of the map of NaN and infinity. FINITE: finite, as in float64. NOT_FINITE_AS_EXACT: the same NaN or
infinity as in float64. MISSING: finite, but not in float64. UNEXPECTED: NaN or infinity, unlike float64."""


@dataclass(frozen=True, eq=False)
class ErrorMap:
    """The largest error in each cell, divided by the allowed error: above 1 the cell fails.

    A cell covers `row_step` rows and `column_step` columns. `kind` is "O" or a gradient's name (rows x
    head_dim), "weights" (query rows x keys): how much of its attention each row gives to a group of key
    tiles, or "weights backward" (query tiles x keys): how much weight the backward pass gives them.
    """

    kind: str
    values: np.ndarray
    """float32 (heads, row cells, column cells)"""
    heads: np.ndarray
    """int32 (heads,): index batch * heads + head of each map; the heads with the largest errors."""
    row_step: int
    column_step: int
    rows: int
    columns: int
    codes: np.ndarray | None = None
    """uint8, shaped as values: FINITE, NOT_FINITE_AS_EXACT, MISSING or UNEXPECTED. None if all are FINITE."""
    first_step: np.ndarray | None = None
    """int32 (heads, query tiles), only for "weights": the step of FlashAttention-2's trace at which the
    program of each query tile starts."""
    signed: np.ndarray | None = None
    """float32, shaped as values: got minus exact at the value of each cell that is off the most."""


def maps_to_bytes(maps: tuple[ErrorMap, ...]) -> bytes:
    """The maps as one .npz, for the pipe between worker and page."""
    named = {
        f"{index}|{name}": value
        for index, error_map in enumerate(maps)
        for name, value in vars(error_map).items()
        if value is not None
    }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **named)
    return buffer.getvalue()


def maps_from_bytes(blob: bytes) -> tuple[ErrorMap, ...]:
    """The reverse of `maps_to_bytes`."""
    maps: dict[int, dict] = {}
    with np.load(io.BytesIO(blob), allow_pickle=False) as file:
        for key in file.files:
            index, name = key.split("|")
            value = file[key]
            maps.setdefault(int(index), {})[name] = value if value.ndim else value.item()
    return tuple(ErrorMap(**fields) for _, fields in sorted(maps.items()))
