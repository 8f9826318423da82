"""One row of a traced forward run, tile by tile: its scores, and m, l and alpha as the kernel wrote them."""

from __future__ import annotations

import numpy as np

from kernels.trace import Trace
from viz.learn.online import Update
from viz.learn.softmax.maths import first_head


def row_scores(trace: Trace, row: int) -> np.ndarray:
    """Scores (kv_len,), float64, of a query of the first head, from its inputs rounded to float16."""
    query, key, _ = first_head(trace.problem, row + 1)
    query, key = (part.astype(np.float16).astype(np.float64) for part in (query, key))
    return query[row] @ key.T * trace.problem.scale


def row_steps(trace: Trace, row: int) -> tuple[Update, ...]:
    """The key tiles of a query of the first head as visited: m, l, alpha of the kernel, scores in float64."""
    if trace.row_max is None or trace.row_sum is None or trace.alpha is None:
        raise ValueError(f"a trace of {trace.algorithm} has no row state; expected one of a forward kernel")
    problem, scores = trace.problem, row_scores(trace, row)
    tile, inside = divmod(row, problem.block_m)
    mine = np.flatnonzero((trace.q_tile == tile) & (trace.batch_head == 0) & (trace.kv_tile >= 0))
    steps: list[Update] = []
    m, l = -np.inf, 0.0
    for step in mine:
        start = int(trace.kv_tile[step]) * problem.block_n
        m_new, alpha, l_new = (
            float(field[step, inside]) for field in (trace.row_max, trace.alpha, trace.row_sum)
        )
        steps.append(Update(scores[start : start + problem.block_n], m, l, m_new, alpha, l_new))
        m, l = m_new, l_new
    return tuple(steps)
