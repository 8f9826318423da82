"""FlashAttention-3 told by lanes of an SM: those of the plain kernel, a question, then both together."""

import functools

import streamlit as st

from kernels.algorithms import named
from kernels.problem import AttentionProblem
from kernels.problem.presets import LANE_PROBLEMS, PRESETS
from viz.learn.after.maths import own_overlap
from viz.learn.controls import choice
from viz.learn.predict import ask
from viz.learn.words import Words
from viz.player.component import show_lanes
from viz.player.lanes import LanesRun, lanes_data, recorded_lane_runs
from viz.shared.layout import explore_link

PLAIN, HOPPER = "flash2", "flash3"
PLAYED = "gpt2"
"""The preset of which Explore plays lanes."""
FIRST = "full128"
"""The problem that is shown first: its programs fill all SMs."""
Pair = tuple[LanesRun, LanesRun]


@functools.cache
def recorded_pair(problem: AttentionProblem) -> Pair | None:
    """The plain and the Hopper kernel with tiles that both can have, if their lanes are recorded."""
    own = named(HOPPER).with_own_tiles(problem)
    found = {run.lanes.kernel: run for run in recorded_lane_runs(own, "forward")}
    return (found[PLAIN], found[HOPPER]) if PLAIN in found and HOPPER in found else None


def lanes_panel(words: Words) -> None:
    """What the warps of both kernels did; nothing if their lanes are not recorded."""
    pairs = {_words(problem): pair for problem in LANE_PROBLEMS.values() if (pair := recorded_pair(problem))}
    if not pairs:
        return
    st.subheader("Seen from inside", anchor=False)
    words.draw("lanes")
    names, first = list(pairs), _words(LANE_PROBLEMS[FIRST])
    first = first if first in names else names[0]
    plain, hopper = pairs[choice("Problem", names, first, "after_lanes_problem", 420)]
    if _predict(words, plain, hopper):
        show_lanes(lanes_data((hopper, plain)), "after_both_lanes")
        own, problem = own_overlap(hopper.lanes), plain.lanes.problem
        words.draw("lanes overlap", plain=plain, hopper=hopper, problem=problem, own=own)
    else:
        show_lanes(lanes_data((plain,)), "after_plain_lanes")
    problem = named(HOPPER).with_own_tiles(PRESETS[PLAYED].problem)
    label = f"{named(HOPPER).label} in Explore: lanes beside the grid of {problem.q_len:,} queries and keys"
    link = functools.partial(explore_link, label, problem, HOPPER, lanes="open")
    words.draw("lanes source", plain=plain, link=link)


def _words(problem: AttentionProblem) -> str:
    return f"{problem.q_heads} heads of {problem.q_len:,} keys, head_dim {problem.head_dim}, {problem.mask}"


def _predict(words: Words, plain: LanesRun, hopper: LanesRun) -> bool:
    problem, shares = plain.lanes.problem, [f"{run.lanes.product_share:.0%}" for run in (plain, hopper)]
    options = sorted({*shares, "100%"}, key=lambda share: float(share[:-1]))
    return ask(
        *(words, "lanes question", f"after_lanes_{problem.mask}{problem.head_dim}", options, shares[1]),
        busy=hopper.lanes.sm_busy_ns.mean() / 1e3,
        product=hopper.lanes.sm_product_ns.mean() / 1e3,
        plain=plain,
        hopper=hopper,
        problem=problem,
    )
