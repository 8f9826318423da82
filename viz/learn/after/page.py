"""Chapter "What came after": split keys, FlashAttention-3 and 4, several GPUs."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from kernels.algorithms import named
from kernels.device.gpus import GPUS, Gpu
from kernels.measure.peers import PEERS
from kernels.measure.worlds import World
from kernels.problem import INPUTS, AttentionProblem, tiles
from kernels.problem.presets import LANE_PROBLEMS, PRESETS
from kernels.recordings import recorded_document, recorded_ranks
from kernels.references import reference
from viz.learn.after import figures
from viz.learn.after import maths as lesson
from viz.learn.controls import choice, gpu_choice, number, parts
from viz.learn.matrices import Matrix, matrices_html
from viz.learn.predict import ask
from viz.learn.stage import stage
from viz.player.component import show_lanes
from viz.player.lanes import LanesRun, lanes_data, recorded_lane_runs
from viz.shared.formats import format_count
from viz.shared.layout import colors, explore_link, plot
from viz.shared.problem_form import INPUT_HELP
from viz.shared.words import Words

WORDS = Words(__file__)
SHOWN_PARTS = 6
LONG = 1 << 20
"""Tokens that one GPU cannot train on."""
ROUNDING = 1e-12
"""A difference below this is only rounding in float64."""

HEAD_DIM, SMALL_HEAD_DIM = 128, 64
"""Of the tiles whose clocks are compared. On the H100 the larger takes longer in products, the smaller in
neither."""
HOPPER_SHAPE = {"q_len": 16384, "head_dim": 128, "mask": "full", "dtype": "float16"}
HOPPER_PEERS = ("ours", "sdpa_flash", "sdpa_cudnn", "fa4")
GAINS = {0.5: "half as many", 1.0: "as many"}
PLAIN, HOPPER = "flash2", "flash3"
PLAYED = "gpt2"
"""The preset of which Explore plays lanes."""


def show() -> None:
    name, source = "FlashAttention-4", reference("Zadouri et al. 2026").full
    draws: dict[str, Callable[[], None]] = {"Split the keys": _split_keys, "FlashAttention-3": _flash3}
    draws[name] = functools.partial(WORDS.draw, name, clocks=_units, source=source)
    parts("after_topic", draws | {"Several GPUs": _several_gpus})


def _split_keys() -> None:
    """Programs on the GPU without and with splitting, and the merge on one row."""
    WORDS.draw("Split the keys")
    problem, gpu = _decoding()
    plan = lesson.occupancy(problem, gpu.sm_count, problem.kv_splits)
    rule, alone = (lesson.occupancy(problem, gpu.sm_count, parts) for parts in (0, 1))
    unsplit = problem.heads * problem.q_tiles
    split_words = f"{format_count(plan.splits, 'part')} of {format_count(plan.tiles_per_split, 'key tile')}"
    queries = min(256, problem.kv_len // 2)
    chunk = AttentionProblem(
        q_len=queries, kv_len=problem.kv_len, mask="causal", block_m=64, block_n=problem.block_n
    )
    WORDS.draw(
        "split",
        problem=problem,
        gpu=gpu,
        plan=plan,
        per_sm=tiles.PROGRAMS_PER_SM,
        before=functools.partial(_squares, "**FlashAttention-2**", unsplit, gpu),
        after=functools.partial(_squares, f"**Split-KV**, {split_words}", plan.programs, gpu),
        unsplit=unsplit,
        row_tiles=alone.programs // problem.kv_heads,
        merge=functools.partial(_merge, problem, plan),
        stage=stage("decode", "split_kv", {"step": "gpu:1"}),
        alone=alone,
        rule=rule,
        wanted=tiles.splits_to_fill(alone.programs, problem.kv_tiles, gpu.sm_count),
        partial=lesson.partial_bytes(problem, plan.splits),
        cache=lesson.cache_bytes(problem),
        chunk=chunk,
        tiles=tiles.count_tiles(chunk),
        see_tiles=[("See the tiles", chunk)],
    )


def _decoding() -> tuple[AttentionProblem, Gpu]:
    """The decoding problem, with its number of parts (0: the kernel's rule), and the GPU."""
    with st.container(horizontal=True, gap="small"):
        kv_len = number("M, keys", 64, 16384, 2048, 64, "after_keys", 140)
        splits = number("Parts (0: the kernel chooses)", 0, 1024, 0, 1, "after_splits", 220)
        gpu = gpu_choice("after_gpu", 110)
    problem = AttentionProblem(q_heads=32, kv_heads=8, q_len=1, kv_len=kv_len, kv_splits=splits)
    return problem.with_(head_dim=64, block_m=16, block_n=64), gpu


def _squares(title: str, programs: int, gpu: Gpu) -> None:
    st.markdown(title)
    plot(figures.sm_figure(lesson.dealt(programs, gpu.sm_count), programs, colors()), key=f"after {title}")


def _merge(problem: AttentionProblem, plan: lesson.Occupancy) -> None:
    """How two halves of a row become one output; once answered, a row in parts, merged, against the whole."""
    weighted = "their sum, each times e^(lse of its part − lse)"
    options = ("the mean of the two", "the one with the larger l", weighted)
    if not ask(WORDS, "merge question", "after_merge", options, weighted):
        return
    st.subheader("Merging is exact", anchor=False)
    inputs = choice("Inputs", INPUTS, "falling_max", "after_row_inputs", 160, INPUT_HELP)
    problem = problem.with_(inputs=inputs, kv_splits=plan.splits)
    one_row = problem.with_(batch=1, q_heads=1, kv_heads=1, q_len=1)
    row = lesson.split_row(one_row, plan.splits)
    shown = min(len(row.weights), SHOWN_PARTS)
    columns = {"m": row.row_max, "l": row.row_sum, "lse": row.lse_of_part, "weight": row.weights}
    matrices = [Matrix(name, values[:shown], "state") for name, values in columns.items()]
    matrices.append(Matrix("o, first 6 of 64 features", row.outputs[:shown, :6], "output"))
    color, mean_color = ("green" if error < ROUNDING else "red" for error in (row.error, row.mean_error))
    WORDS.draw(
        "merge",
        row=row,
        sum=row.weights.sum(),
        color=color,
        mean_color=mean_color,
        parts=matrices_html(matrices, colors()),
        shown=shown,
        count=len(row.weights),
        links=[
            ("This row in the kernel, with these parts", one_row, "split_kv"),
            ("All heads, with these parts", problem, "split_kv"),
        ],
    )


def _flash3() -> None:
    WORDS.draw(
        "FlashAttention-3",
        clocks=_overlap,
        lanes=lanes_panel,
        speeds=_speeds(),
        source=reference("Shah et al. 2024").full,
    )


def _several_gpus() -> None:
    half = World(2, LONG)
    label, icon = "Several GPUs: what each rank did and when", ":material/hub:"
    WORDS.draw(
        "Several GPUs",
        tokens=LONG,
        layer=2 * (2 * half.q_bytes + half.kv_bytes),
        gpu=GPUS["H200"],
        ring=_ring,
        link=functools.partial(st.page_link, "viz/ranks/page.py", label=label, icon=icon),
    )


def _ring() -> None:
    """Who holds which chunk, and who works most; as four GPUs did it."""
    even, uneven = (recorded_ranks()[f"ring.{layout}.forward"] for layout in ("zigzag", "contiguous"))
    held = even.span_owner[even.of("attend")].reshape(even.ranks, -1)  # a row per rank: whose keys, by step
    work, names = lesson.work_shares(uneven), [*range(even.ranks)]
    options, right = [f"chunk {rank}" for rank in names], f"chunk {held[2, 2]}"
    if not ask(WORDS, "ring question", "after_ring", options, right, held=", ".join(map(str, held[2]))):
        return
    st.html(matrices_html([Matrix("chunk held, a row per rank, a column per step", held, "key")], colors()))
    options, right = [*(f"rank {rank}" for rank in names), "all the same"], f"rank {work.argmax()}"
    shares = {"work": work, "even": lesson.work_shares(even), "device": even.device}
    ask(WORDS, "work question", "after_work", options, right, **shares)


def _overlap() -> None:
    """How long a tile takes if two units work at once."""
    products, exponentials = map(int, lesson.tile_clocks(HEAD_DIM)["H100"].values())
    times = {"products": products, "exponentials": exponentials, "in_turn": products + exponentials}
    options, right = [f"{count:,}" for count in sorted({*times.values()})], f"{max(products, exponentials):,}"
    _ask_clocks("overlap question", options, right, **times)


def _units() -> None:
    """What twice as fast tensor cores are worth."""
    clocks, small = lesson.tile_clocks(HEAD_DIM), lesson.tile_clocks(SMALL_HEAD_DIM)
    hopper, blackwell = clocks["H100"], clocks["B200"]
    before, after = (max(each.values()) for each in (hopper, blackwell))
    given = {"hopper": hopper, "blackwell": blackwell, "before": before, "after": after}
    given |= {"small": SMALL_HEAD_DIM, "small_before": max(small["H100"].values())}
    given |= {"small_after": max(small["B200"].values())}
    _ask_clocks("faster question", [*GAINS.values()], GAINS[after / before], **given)


def _ask_clocks(question: str, options: Sequence[str], right: str, **given: Any) -> None:
    """Clocks of the units of one SM for one tile on each GPU, and once predicted the overlapped ones."""
    WORDS.draw("clocks", head_dim=HEAD_DIM)
    table = st.container()
    answered = ask(WORDS, question, f"after_{question}", options, right, **given)
    rows = (
        {"gpu": gpu, "units": units, "in_turn": sum(units.values())}
        | {"at_once": f"**{max(units.values()):,.0f}**" if answered else "?"}
        for gpu, units in lesson.tile_clocks(HEAD_DIM).items()
    )
    table.markdown(WORDS.rows("clocks table", rows))
    if answered:
        WORDS.draw("clocks model", head_dim=HEAD_DIM, per_clock=lesson.EXPONENTIALS_PER_CLOCK)


def _speeds() -> str:
    """The recorded speed of our own kernel of this kind and of its peers; "" if there is none."""
    for measurement in recorded_document("sweeps").measurements:
        problem, results = measurement.problem, [measurement.result(peer, "forward") for peer in HOPPER_PEERS]
        if HOPPER_SHAPE.items() <= problem.as_dict().items() and all(results):
            speeds = [f"{PEERS[each.peer].label} {each.tflops(problem):.0f}" for each in results if each]
            return WORDS("speeds", device=measurement.device, problem=problem, shown=", ".join(speeds))
    return ""


@functools.cache
def recorded_pair() -> tuple[LanesRun, LanesRun]:
    """The plain and the Hopper kernel on a problem whose programs fill all SMs, with tiles of both."""
    problem = named(HOPPER).with_own_tiles(LANE_PROBLEMS["full128"])
    found = {run.lanes.kernel: run for run in recorded_lane_runs(problem, "forward")}
    return found[PLAIN], found[HOPPER]


def lanes_panel() -> None:
    """What the warps of the plain kernel did; once it is predicted, of the Hopper kernel too."""
    plain, hopper = recorded_pair()
    problem, shares = plain.lanes.problem, [f"{run.lanes.product_share:.0%}" for run in recorded_pair()]
    st.subheader("Seen from inside", anchor=False)
    WORDS.draw("lanes", problem=problem)
    options = sorted({*shares, "100%"}, key=lambda share: float(share[:-1]))
    busy, product = (ns.mean() / 1e3 for ns in (hopper.lanes.sm_busy_ns, hopper.lanes.sm_product_ns))
    given = {"plain": plain, "hopper": hopper, "problem": problem, "busy": busy, "product": product}
    given["slower"] = plain.lanes.plain_us / hopper.lanes.plain_us
    if ask(WORDS, "lanes question", "after_lanes", options, shares[1], **given):
        show_lanes(lanes_data((hopper, plain)), "after_both_lanes")
        WORDS.draw("lanes overlap", **given)
    else:
        show_lanes(lanes_data((plain,)), "after_plain_lanes")
    played = named(HOPPER).with_own_tiles(PRESETS[PLAYED].problem)
    label = f"{named(HOPPER).label} in Explore: lanes beside the grid of {played.q_len:,} queries and keys"
    link = functools.partial(explore_link, label, played, HOPPER, lanes="open")
    WORDS.draw("lanes source", plain=plain, link=link)
