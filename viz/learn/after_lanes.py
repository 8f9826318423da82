"""FlashAttention-3 told by lanes of an SM: those of the plain kernel, a question, then both together."""

from __future__ import annotations

import functools

import streamlit as st

from kernels.algorithms import named
from kernels.lessons.own_overlap import own_overlap
from kernels.problem import AttentionProblem
from kernels.problem.presets import LANE_PROBLEMS, PRESETS
from kernels.recordings import recorded_run
from viz.learn.controls import choice
from viz.learn.predict import choose
from viz.player.component import show_lanes
from viz.player.lanes import LanesRun, lanes_data, recorded_lane_runs
from viz.shared.glossary import say
from viz.shared.layout import explore_link

PLAIN, HOPPER = "flash2", "flash3"
FIRST = "full128"
"""The problem that is shown first: its programs fill all SMs."""
Pair = tuple[LanesRun, LanesRun]


@functools.cache
def recorded_pair(problem: AttentionProblem) -> Pair | None:
    """The plain and the Hopper kernel with tiles that both can have, if their lanes are recorded."""
    own = named(HOPPER).with_own_tiles(problem)
    found = {run.lanes.kernel: run for run in recorded_lane_runs(own, "forward")}
    return (found[PLAIN], found[HOPPER]) if PLAIN in found and HOPPER in found else None


def lanes_panel() -> None:
    """What the warps of both kernels did; nothing if their lanes are not recorded."""
    pairs = {_words(problem): pair for problem in LANE_PROBLEMS.values() if (pair := recorded_pair(problem))}
    if not pairs:
        return
    st.subheader("Seen from inside", anchor=False)
    say(
        "The kernels wrote down when their [[warp|warps]] did what, by the clock of their [[SM]]. The upper "
        "tracks are products under way on the [[tensor cores]], from the moment at which the warps issue one "
        "until they know that it is done. The lowest track is what the warps do themselves. A click on a "
        "block marks its tile."
    )
    names, first = list(pairs), _words(LANE_PROBLEMS[FIRST])
    first = first if first in names else names[0]
    plain, hopper = pairs[choice("Problem", names, first, "after_lanes_problem", 420)]
    if _predict(plain, hopper):
        show_lanes(lanes_data((hopper, plain)), "after_both_lanes")
        say(overlap_words(plain, hopper))
    else:
        show_lanes(lanes_data((plain,)), "after_plain_lanes")
    st.caption(
        f"**Recorded** on {plain.lanes.device.name} on the dates above, and replayed here. In {plain.label} "
        "the compiler places the wait for a tile, so the time of a product includes it. "
        "Explore measures the lanes of a problem of yours on a Hopper GPU."
    )
    problem, name = _played(plain)
    explore_link(
        f"{named(name).label} in Explore: lanes beside the grid of {problem.q_len:,} queries and keys",
        *(problem, name),
        lanes="open",
    )


def _words(problem: AttentionProblem) -> str:
    return f"{problem.q_heads} heads of {problem.q_len:,} keys, head_dim {problem.head_dim}, {problem.mask}"


def _played(plain: LanesRun) -> tuple[AttentionProblem, str]:
    """What Explore plays with lanes: the Hopper kernel if its run is recorded too, else the plain one."""
    for preset in PRESETS.values():
        own = named(HOPPER).with_own_tiles(preset.problem)
        if (pair := recorded_pair(preset.problem)) and recorded_run(own, HOPPER):
            return pair[1].lanes.problem, HOPPER
    return plain.lanes.problem, PLAIN


def _predict(plain: LanesRun, hopper: LanesRun) -> bool:
    problem = plain.lanes.problem
    shares = [f"{run.lanes.product_share:.0%}" for run in (plain, hopper)]
    return choose(
        f"after_lanes_{problem.mask}{problem.head_dim}",
        f"In {plain.label} a product, or the wait for its tile, was under way {shares[0]} of the SMs' time. "
        f"A program of {hopper.label} has two [[warpgroup|warpgroups]], four warps each that multiply "
        "together. Each has query rows of its own: while one is in its softmax, the other can multiply. But "
        "at times both are in their softmax or wait for a tile, and while a program begins or ends nothing "
        "is multiplied. How much of the time was a product under way, without waits for tiles?",
        sorted({*shares, "100%"}, key=lambda words: float(words[:-1])),
        shares[1],
        share_words(hopper)
        + f" One call takes {hopper.lanes.plain_us:.0f} µs instead of {plain.lanes.plain_us:.0f} µs, both "
        f"with tiles of {problem.block_m} × {problem.block_n}.",
    )


def share_words(run: LanesRun) -> str:
    """What the share of time with a product is made of, and what the rest is."""
    lanes = run.lanes
    product, busy = (times.sum() / len(times) / 1e3 for times in (lanes.sm_product_ns, lanes.sm_busy_ns))
    return (
        f"On average an SM had a program for {busy:.1f} µs, and a product was under way for {product:.1f} µs "
        f"of them: {product:.1f} / {busy:.1f} = {lanes.product_share:.0%}, recorded on {lanes.device.name}. "
        "In the rest of the time no warpgroup multiplied: each was in its softmax, waited for a tile, or "
        "began or ended its program."
    )


def overlap_words(plain: LanesRun, hopper: LanesRun) -> str:
    """What the lanes show, with their figures."""
    own, problem = own_overlap(hopper.lanes), plain.lanes.problem
    hidden = [run.lanes.hidden_share for run in (plain, hopper)]
    return (
        f"**{plain.label}**: {hidden[0]:.0%} of softmax ran beside a product of any program on the SM. While "
        "no product is under way, the [[tensor cores]] stand still. With tiles of "
        f"{problem.block_m} × {problem.block_n}, as the other kernel has, one [[program]] fills an SM. "
        "Its own tiles, which tuning chose as its fastest, are smaller, and the times of the two kernels are "
        "closer with them.  \n"
        f"**{hopper.label}**: {hidden[1]:.0%} of softmax ran beside a product of any warpgroup on the SM, "
        f"and {own:.0%} beside one of the same warpgroup. Its warpgroups take turns to "
        "multiply. (Ours waits for its products before its softmax; "
        "the paper's kernel also runs softmax beside them.) The row “loads” is a warp that only loads. "
        "During its blocks no place in [[SRAM|shared memory]] is free for the next tile, so it waits. "
        "Between them it loads."
    )
