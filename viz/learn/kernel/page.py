"""Chapter "The kernel": a recorded run in the player, its lines in plain words, its next step to predict."""

import functools

import numpy as np
import streamlit as st

from kernels.problem.presets import PRESETS
from kernels.trace import Trace
from viz.learn.controls import number
from viz.learn.predict import next_state, type_in, update_words
from viz.learn.softmax.maths import Update, first_head
from viz.learn.stage import stage
from viz.shared import runs
from viz.shared.formats import format_number
from viz.shared.layout import explore_link
from viz.shared.words import Words

PRESET = "tiny"
PROBLEM = PRESETS[PRESET].problem
ALGORITHM = "flash2"

WORDS = Words(__file__)


def show() -> None:
    run = runs.recorded(PROBLEM, ALGORITHM)
    assert run  # the project has it
    WORDS.draw(
        "start",
        problem=PROBLEM,
        player=stage(PRESET, ALGORITHM, {"unit": "phase", "step": "1.2", "open": "tile", "plain": ""}),
        predict=functools.partial(_predict, run),
    )
    explore_link("Your own sizes: Explore", PROBLEM)


def _predict(run: runs.Run) -> None:
    """The next step of one row, by hand; right is what the kernel wrote."""
    with st.container(horizontal=True, gap="small"):
        row = number("Row (query)", 0, PROBLEM.q_len - 1, 0, 1, "kernel_row", 140)
        seen = number("After how many key tiles?", 0, PROBLEM.kv_tiles - 1, 1, 1, "kernel_after", 220)
    step = row_steps(run.trace, int(row))[int(seen)]
    scores = ", ".join(format_number(score) for score in step.scores)
    given = {"row": row, "seen": seen, "problem": PROBLEM, "step": step, "count": len(step.scores)}
    type_in(
        f"kernel_{row}_{seen}",
        WORDS("question", scores=scores, **given),
        next_state(step),
        f"{update_words(step, digits=3)} O is multiplied by the same factor.",
    )


def row_steps(trace: Trace, row: int) -> tuple[Update, ...]:
    """The key tiles of a query of the first head as visited: m, l, alpha of the kernel.

    The scores are computed in float64 from its inputs rounded to float16.
    """
    problem = trace.problem
    query, key, _ = (part.astype(np.float16).astype(np.float64) for part in first_head(problem, row + 1))
    scores = query[row] @ key.T * problem.scale
    tile, inside = divmod(row, problem.block_m)
    mine = np.flatnonzero((trace.q_tile == tile) & (trace.batch_head == 0) & (trace.kv_tile >= 0))
    fields = [each for each in (trace.row_max, trace.alpha, trace.row_sum) if each is not None]
    steps: list[Update] = []
    m, l = -np.inf, 0.0
    for step in mine:
        start = int(trace.kv_tile[step]) * problem.block_n
        m_new, alpha, l_new = (float(field[step, inside]) for field in fields)
        steps.append(Update(scores[start : start + problem.block_n], m, l, m_new, alpha, l_new))
        m, l = m_new, l_new
    return tuple(steps)
