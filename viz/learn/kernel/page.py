"""Chapter "The kernel": a recorded run in the player, its lines in plain words, its next step to predict."""

import functools

import numpy as np
import streamlit as st

from kernels.algorithms.standard.traffic import standard_bytes, standard_requested
from kernels.device.gpus import DEFAULT_GPU, GPUS
from kernels.problem.presets import PRESETS
from kernels.trace import Trace
from viz.learn.controls import number
from viz.learn.online import Update, update_words
from viz.learn.predict import next_state, type_in
from viz.learn.softmax.maths import first_head
from viz.learn.stage import stage, state_key
from viz.learn.words import Words
from viz.player.drawn import drawn_of
from viz.player.talk.data import in_state
from viz.player.talk.panel import scene_popover
from viz.player.talk.scene import Scene
from viz.shared import runs
from viz.shared.formats import format_number
from viz.shared.layout import explore_link
from viz.shared.run_request import RunRequest

PRESET = "tiny"
PROBLEM = PRESETS[PRESET].problem
ALGORITHM = "flash2"

WORDS = Words(__file__)


def show() -> None:
    """Draw the chapter."""
    run = _run()
    WORDS.draw(
        "start",
        problem=PROBLEM,
        player=stage(PRESET, ALGORITHM, {"unit": "phase"}),
        scene=functools.partial(scene_popover, _scene, "kernel_scene"),
        run=run,
        standard=standard_requested(PROBLEM),
        least=standard_bytes(PROBLEM),
        predict=functools.partial(_predict, run),
    )
    explore_link("Your own sizes: Explore", PROBLEM)


def _run() -> runs.Run:
    run = runs.recorded(PROBLEM, ALGORITHM)
    assert run is not None  # the project has it
    return run


def _scene() -> Scene:
    state = st.session_state.get(state_key(PRESET, ALGORITHM), {})
    sentence = "{q_len} queries and {kv_len} keys, in tiles of {block_m}."
    scene = Scene("The kernel, step by step", sentence, RunRequest(PROBLEM, ALGORITHM), tells=True)
    return in_state(scene, state, [drawn_of(_run().trace, GPUS[DEFAULT_GPU])])


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
        f"{update_words(step, digits=3)} acc is multiplied by the same factor.",
    )


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
