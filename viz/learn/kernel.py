"""Chapter "The kernel": a recorded run in the player, its lines in plain words, its next step to predict."""

from __future__ import annotations

import functools

import numpy as np
import streamlit as st

from kernels.algorithms.standard.traffic import standard_bytes, standard_requested
from kernels.device.gpus import DEFAULT_GPU, GPUS
from kernels.lessons.kernel_rows import RowStep, row_steps
from kernels.lessons.predictions import next_state
from kernels.problem.presets import PRESETS
from viz.learn.controls import number
from viz.learn.predict import type_in
from viz.player.component import show_player
from viz.player.data import player_data
from viz.player.places import well_placed
from viz.player.scene import ROW, STEP, RunName, Scene, Stop
from viz.player.scene_panel import scene_popover
from viz.shared import runs
from viz.shared.formats import equals, format_bytes, format_number
from viz.shared.glossary import say
from viz.shared.layout import explore_link

PROBLEM = PRESETS["tiny"].problem
ALGORITHM = "flash2"

LINES = (
    ("load Q", "q", "the [[query tile]] of this [[program]]; it stays [[on the chip]]"),
    ("load K", "k", "one [[key tile]]"),
    (
        "QK^T",
        "scores",
        "the [[score|scores]] of this tile; the player shows them with the factor 1/√d of a later line",
    ),
    (
        "mask",
        "mask_scores",
        "only in a tile that the [[mask]] cuts: a hidden key gets the score −∞, so its weight is e^(−∞) = 0. "
        "This run has no mask, so the phase never comes",
    ),
    ("row max", "m_new", "the larger of the old [[row max|m]] and the largest new score, for each row"),
    ("exponentials", "p", "exp(score − m): the [[weight|weights]], not yet divided by their sum"),
    (
        "rescale",
        "alpha",
        "[[rescale factor|α]], which turns the old sums into those of the new m",
    ),
    ("rescale", "l", "[[row sum|l]]: the old l times α, plus the new exponentials"),
    ("rescale", "acc", "[[accumulator|acc]]: the old acc times α"),
    ("load V, PV", "acc", "plus the new exponentials times the values of this tile"),
    ("store O, lse", "o", "after the last key tile: acc / l, and [[lse|m + ln l]]"),
)
"""Phase, name in the code, what it is."""


def show() -> None:
    """Draw the chapter."""
    run = runs.recorded(PROBLEM, ALGORITHM)
    if run is None:
        st.error("The recording of the tiny problem is missing. Record it with `python -m kernels.record`.")
        return
    say(
        f"This is a real run of our [[Triton]] [[kernel]] of [[FlashAttention-2]]: {PROBLEM.q_len} "
        f"[[query|queries]] and {PROBLEM.kv_len} [[key|keys]] of [[head_dim]] {PROBLEM.head_dim}, in tiles "
        f"of {PROBLEM.block_m}. Each [[program]] of it takes one [[query tile]], a row of tiles in the "
        "picture below. Its large rectangle is [[score|S]], which is **never in [[HBM]]**: only the tile at "
        "work exists, [[on the chip]]. Hatched tiles are still to come; a coloured tile has been used and "
        "forgotten. Q comes from the left, K and V from above, and O leaves to the right. Each press of an "
        "arrow key, or of the arrow buttons below the picture, is one phase of a tile step: its lines of "
        "code light up, and a sentence says what it does. “tile” takes a whole [[tile step]] at once, and "
        "“Numbers” shows the numbers inside the tile. The space key or the play button plays."
    )
    _player()
    _lines()
    scene_popover(_scene, "kernel_scene")
    say(f"This run is {run.provenance}. Click a tile to follow one of its rows. {_bytes_words(run)}", True)
    _predict(run)
    explore_link("Your own sizes: Explore", PROBLEM)


def _bytes_words(run: runs.Run) -> str:
    """What the two bars of bytes under the player count."""
    return (
        f"The upper bar ends at {format_bytes(run.trace.total_bytes)} [[requested bytes|requested]]: "
        f"each of the {PROBLEM.q_tiles} query tiles reads all of K and V. The lower bar counts standard "
        f"attention in the same tiles by the same rule: {format_bytes(standard_requested(PROBLEM))} "
        "(modelled). K and V are read again there too, and S and P come on top. If a cache kept K and V, "
        f"standard attention would still move [[compulsory bytes|at least]] "
        f"{format_bytes(standard_bytes(PROBLEM))}."
    )


@st.fragment
def _player() -> None:
    """A fragment: a new state reruns the player alone."""
    state = st.session_state.setdefault("learn_player_state", {"unit": "phase"})
    st.session_state["learn_player_state"] = show_player(_data(), "learn_player", state)


def _scene() -> Scene:
    """What the player shows, as a scene of a talk."""
    state = st.session_state.get("learn_player_state", {})
    step, row = state.get("step", ""), state.get("row", "")
    scene = Scene(
        title="The kernel, step by step",
        sentence="{q_len} queries and {kv_len} keys, in tiles of {block_m}.",
        run=RunName(PROBLEM, ALGORITHM),
        stops=(Stop(step if STEP.fullmatch(step) else "0"),),
        view="numbers" if state.get("open") == "tile" else "grid",
        row=row if ROW.fullmatch(row) else "",
        tells=True,
    )
    return well_placed(scene, [_data()])


@functools.lru_cache(maxsize=1)
def _data() -> dict:
    run = runs.recorded(PROBLEM, ALGORITHM)
    assert run is not None  # shown only if there is one
    return player_data(run.trace, run.provenance, GPUS[DEFAULT_GPU])


def _predict(run: runs.Run) -> None:
    """The next step of one row, by hand; right is what the kernel wrote."""
    st.subheader("Be the kernel for one step", anchor=False)
    with st.container(horizontal=True, gap="small"):
        row = number("Row (query)", 0, PROBLEM.q_len - 1, 0, 1, "kernel_row", 140)
        at = number("After how many key tiles?", 0, PROBLEM.kv_tiles - 1, 1, 1, "kernel_after", 220)
    step = row_steps(run.trace, int(row))[int(at)]
    shown = ", ".join(format_number(score) for score in step.scores)
    before = (
        f"[[row max|m]] = {format_number(step.m_before)} and [[row sum|l]] = {format_number(step.l_before)}"
        if at
        else "m = −∞ and l = 0, since no key has been seen"
    )
    type_in(
        f"kernel_{row}_{at}",
        f"Row {row} has seen {at} of {PROBLEM.kv_tiles} key tiles: {before}. Its scores with the next "
        f"{len(step.scores)} keys are **{shown}**. What will m, [[rescale factor|α]] and l be?",
        next_state(step.m_before, step.l_before, step.scores, (step.m, step.alpha, step.l)),
        step_words(step),
    )
    st.caption(
        "m, α and l are **recorded**: what the kernel wrote down after this tile. The scores are computed "
        "here in float64 from the same inputs."
    )


def step_words(step: RowStep) -> str:
    """What happens to a row at a key tile, in plain words with its numbers."""
    m, l, alpha = (format_number(value) for value in (step.m, step.l, step.alpha))
    new = float(np.exp(step.scores - step.m).sum())
    added, is_l = format_number(new), equals(step.alpha, step.l_before, new, step.l)
    if not np.isfinite(step.m_before):
        return (
            f"This is the first tile: nothing was summed up before, so α = e^(−∞) = 0 has nothing to "
            f"rescale. m is the largest score, {m}, and l is the sum of e^(score − {m}), {l}."
        )
    old = format_number(step.m_before)
    if step.alpha == 1:
        return (
            f"The largest score stays {m}, so α = e^0 = 1 and the old sum stays as it is: l = "
            f"{format_number(step.l_before)} + {added} {is_l} {l}."
        )
    return (
        f"The largest score rose from {old} to {m}, so everything summed up so far counts e^({old} − {m}) "
        f"{equals(step.alpha)} {alpha} times: l {is_l} {alpha} · {format_number(step.l_before)} + {added} "
        f"{is_l} {l}. acc is multiplied by "
        "the same factor."
    )


def _lines() -> None:
    """The kernel's names in the reader's words."""
    with st.expander("The lines of the kernel, in plain words", expanded=True):
        rows = [f"| {phase} | `{name}` | {words} |" for phase, name, words in LINES]
        say("\n".join(["| phase | in the code | what it is |", "|:--|:--|:--|", *rows]))
        say(
            "**Why the code says `exp2`**: a GPU has an instruction for 2^x, and none for e^x. So the kernel "
            "multiplies the scores by log₂ e (and by 1/√d at the same time): 2^(score · log₂ e) is e^score. "
            "Inside the kernel m has this factor too. The player and this page divide it out again, so that "
            "α = exp(old m − new m) holds for the numbers that you see."
        )
