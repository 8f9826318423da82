"""FlashAttention-3 told by lanes of an SM: those of the plain kernel, a question, then both together."""

from __future__ import annotations

import streamlit as st

from kernels.lessons.own_overlap import own_overlap
from kernels.problem.presets import PRESETS
from kernels.traffic.modelled import forward_flops
from viz.learn.predict import choose
from viz.player.component import show_lanes
from viz.player.lanes import LanesRun, lanes_data, recorded_lane_runs
from viz.shared.glossary import say
from viz.shared.layout import explore_link

PLAIN, HOPPER = "flash2", "flash3"


def recorded_pair() -> tuple[LanesRun, LanesRun] | None:
    """The plain and the Hopper kernel on the largest preset of which both have recorded lanes, or None."""
    presets = sorted((preset.problem for preset in PRESETS.values()), key=forward_flops, reverse=True)
    for problem in presets:
        found = {run.lanes.algorithm: run for run in recorded_lane_runs(problem, "forward")}
        if PLAIN in found and HOPPER in found:
            return found[PLAIN], found[HOPPER]
    return None


def lanes_panel() -> None:
    """What the warps of both kernels did; nothing if their lanes are not recorded."""
    pair = recorded_pair()
    if pair is None:
        return
    plain, hopper = pair
    problem = plain.lanes.problem
    st.subheader("Seen from inside", anchor=False)
    say(
        "Both kernels wrote down when their [[warp|warps]] did what, by the clock of their [[SM]]: "
        f"{problem.q_len:,} × {problem.kv_len:,} scores, head_dim {problem.head_dim}, {problem.mask}. "
        "In each row the upper tracks are products under way on the [[tensor cores]], from the moment at "
        "which the warps issue one until they know that it is done. The lowest track is what the warps do "
        "themselves."
    )
    if _predict(plain, hopper):
        show_lanes(lanes_data((hopper, plain)), "after_both_lanes")
        say(overlap_words(plain, hopper))
    else:
        show_lanes(lanes_data((plain,)), "after_plain_lanes")
    st.caption(
        f"**Recorded** on {plain.lanes.device.name}, {plain.lanes.recorded_at[:10]}, and replayed here. "
        "Only a Hopper GPU can run both kernels; Explore measures the lanes there."
    )
    explore_link("These lanes beside the tiles", problem, HOPPER, lanes="open")


def _predict(plain: LanesRun, hopper: LanesRun) -> bool:
    shares = [f"{run.lanes.product_share:.0%}" for run in (plain, hopper)]
    return choose(
        "after_lanes",
        f"In {plain.label} a product was under way {shares[0]} of the SMs' time. {hopper.label} issues the "
        "products of one [[key tile]], and does softmax of another one meanwhile. How much of the time is a "
        "product under way then?",
        sorted({*shares, "100%"}, key=lambda words: float(words[:-1])),
        shares[1],
        f"One call takes {hopper.lanes.plain_us:.0f} µs instead of {plain.lanes.plain_us:.0f} µs.",
    )


def overlap_words(plain: LanesRun, hopper: LanesRun) -> str:
    """What the lanes show, with their figures."""
    own = [own_overlap(run.lanes) for run in (plain, hopper)]
    hidden = [run.lanes.hidden_share for run in (plain, hopper)]
    return (
        f"**{plain.label}**: during {own[0]:.0%} of its softmax a program has a product of its own under "
        f"way, and {hidden[0]:.0%} of softmax ran beside a product of any program on the SM. For the rest of "
        "softmax no product is under way: the [[tensor cores]] stand still.  \n"
        f"**{hopper.label}**: during {own[1]:.0%} of its softmax a warpgroup has a product of its own under "
        f"way, and {hidden[1]:.0%} of softmax ran beside a product of any warpgroup on the SM."
    )
