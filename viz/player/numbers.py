"""The numbers of small tiles, for the player: which matrix stands where, and its values step by step."""

from __future__ import annotations

import base64
from dataclasses import asdict

import numpy as np

from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm
from kernels.trace.tile_figure import RecordedMatrix, TileFigure
from viz.player.selection import Selection

MATRICES_LIMIT_BYTES = 4 << 20
"""A run whose matrices are larger is sent without them."""


def figure_data(figure: TileFigure) -> dict:
    """The figure as plain values."""
    values = asdict(figure)
    for matrix in values["matrices"]:
        matrix["label"] = matrix["label"] or matrix["name"]
    return values


def matrices_of(trace: Trace, algorithm: Algorithm, selection: Selection) -> dict[str, dict]:
    """The recorded matrices by name, float32 (drawn steps, rows, columns); empty if there are none."""
    figures = [kernel.figure for kernel in algorithm.kernels if kernel.figure]
    is_grouped = not np.array_equal(selection.first, selection.last)
    if trace.matrices is None or is_grouped:
        return {}
    matrices = {matrix.name: matrix for figure in figures for matrix in figure.matrices}
    known = {name: _values(trace, matrix) for name, matrix in matrices.items()}
    drawn = {name: values[selection.last] for name, values in known.items() if values is not None}
    if sum(values.nbytes for values in drawn.values()) > MATRICES_LIMIT_BYTES:
        return {}
    return {
        name: {"rows": values.shape[1], "columns": values.shape[2], "data": encode(values, "float32")}
        for name, values in drawn.items()
    }


def _values(trace: Trace, matrix: RecordedMatrix) -> np.ndarray | None:
    if matrix.is_field and trace.matrix_row is None:
        return getattr(trace, matrix.name)
    return (trace.matrices or {}).get(matrix.name)


def encode(values: np.ndarray, dtype: str) -> str:
    """Little-endian numbers in base64."""
    little_endian = np.ascontiguousarray(values, np.dtype(dtype).newbyteorder("<"))
    return base64.b64encode(little_endian.tobytes()).decode()
