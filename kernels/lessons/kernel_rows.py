"""One row of a traced forward run, tile by tile: its scores, and m, l and alpha as the kernel wrote them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels.lessons.ideas import first_rows
from kernels.trace import Trace


@dataclass(frozen=True, eq=False)
class RowStep:
    """One key tile of one row. m, l and alpha are the kernel's, the scores (keys,) are float64."""

    kv_tile: int
    scores: np.ndarray
    m_before: float
    l_before: float
    m: float
    l: float
    alpha: float


def row_scores(trace: Trace, row: int) -> np.ndarray:
    """Scores (kv_len,) of a query of the first head, in float64, from the inputs that the kernel was given.

    For inputs "normal" in float16, which are rounded to it here as in kernels.problem.inputs.
    """
    query, key, _ = first_rows(trace.problem, row + 1)
    query, key = (part.astype(np.float16).astype(np.float64) for part in (query, key))
    return query[row] @ key.T * trace.problem.scale


def row_steps(trace: Trace, row: int) -> tuple[RowStep, ...]:
    """The key tiles of a query of the first head, in the order in which the kernel visited them."""
    problem = trace.problem
    scores = row_scores(trace, row)
    tile, inside = divmod(row, problem.block_m)
    if trace.row_max is None or trace.row_sum is None or trace.alpha is None:
        raise ValueError(f"a trace of {trace.algorithm} has no row state; expected one of a forward kernel")
    mine = np.flatnonzero((trace.q_tile == tile) & (trace.batch_head == 0) & (trace.kv_tile >= 0))
    steps, m, l = [], -np.inf, 0.0
    for step in mine:
        j = int(trace.kv_tile[step])
        now = tuple(float(field[step, inside]) for field in (trace.row_max, trace.row_sum, trace.alpha))
        keys = slice(j * problem.block_n, (j + 1) * problem.block_n)
        steps.append(RowStep(j, scores[keys], m, l, *now))
        m, l = now[0], now[1]
    return tuple(steps)
