"""Chapter "Traffic": how many bytes each algorithm moves forward, modelled and counted, and why."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import streamlit as st

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.backward.entry import DK_DV
from kernels.algorithms.flash2.entry import FORWARD
from kernels.algorithms.standard.traffic import standard_bytes
from kernels.device.gpus import DEFAULT_GPU, GPUS
from kernels.problem import BLOCKS, AttentionProblem
from kernels.problem.tiles import count_tiles
from kernels.recordings import RecordedLaunch, recorded_launches
from kernels.trace import Trace
from kernels.traffic.modelled import compulsory_bytes
from viz.learn.controls import HEAD_DIMS, TILE_SIZES, gpu_choice, parts, slider, switch
from viz.learn.counts import RULE, counted_runs, where_counted
from viz.learn.io import maths as lesson
from viz.learn.io.figures import Curves, bytes_figure, growth_figure
from viz.learn.predict import ask
from viz.learn.stage import stage
from viz.learn.tiling.maths import tiles_of
from viz.shared.formats import format_kib, significant
from viz.shared.layout import colors
from viz.shared.words import Words

WORDS = Words(__file__)
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
TILE = 64
MEMORIES_KIB = (16, 32, 64, 96, 128, 163, 192, 227, 256)
CURVES = tomllib.loads(Path(__file__).with_name("curves.toml").read_text("utf-8"))
WAYS = ("flash2", "standard", "flash1", "row_wise")
"""Algorithms that are compared as bars."""
AXES = {"N": "N", "d": "d", "SRAM": "SRAM, KiB"}
POINT_STEPS = 600
"""A point of a curve is counted if its run has at most this many tile steps."""
Points = dict[int, tuple[int, int, int]]
"""Value on the axis -> N, d and bytes of SRAM."""


def show() -> None:
    parts("io_view", {"Forward": _forward, "Growth": _growth})


def _shape() -> AttentionProblem:
    length = slider("N, queries and keys", LENGTHS, 1024, "io_t")
    d = slider("d, head_dim", HEAD_DIMS, 64, "io_d")
    return AttentionProblem(q_len=length, kv_len=length, head_dim=d)


def _forward() -> None:
    """The question, the figure, and folded the inner loops and the formula of each algorithm."""
    WORDS.draw("Forward")
    with st.container(horizontal=True, gap="medium"):
        problem = _shape().with_(
            block_m=slider("BLOCK_M", TILE_SIZES, TILE, "io_bm", "Queries per tile."),
            block_n=slider("BLOCK_N", TILE_SIZES, TILE, "io_bn", "Keys per tile."),
        )
        gpu = gpu_choice("io_gpu", 130)
    memory = gpu.shared_bytes_per_program
    _predict(problem)
    rows = lesson.row_wise_block(problem, memory)
    problems = {name: problem for name in WAYS if rows or name != "row_wise"}
    labels = {name: CURVES[name]["label"] for name in WAYS}
    if rows:
        problems["row_wise"] = problem.with_(block_m=rows)
        labels["row_wise"] += f", {rows:,} rows"
    kept = rows or min(BLOCKS)
    times = tiles_of(problem.q_len, kept)
    page, counting = st.container(), st.container()
    with counting:  # below the rest, which its progress would push down
        wanted = [(each, name) for name, each in problems.items()]
        ready = counted_runs(wanted, "io_forward")
    traces = {name: run.trace for (_, name), run in ready.items()}
    modelled = {name: ALGORITHMS[name].requested_bytes(each) for name, each in problems.items()}
    counted = {name: trace.total_bytes for name, trace in traces.items()}
    bars = {labels[name]: (modelled[name], counted.get(name), CURVES[name]["color"]) for name in problems}
    least, with_lse = (compulsory_bytes(problem, with_lse=lse) for lse in (False, True))
    given, formulas = {"problem": problem, "room": memory, "gpu": gpu}, []
    for name, each in problems.items():
        entry = ALGORITHMS[name]
        kernel = max(entry.kernels, key=lambda kernel: kernel.chip_bytes(each))
        chip, moved = entry.chip_bytes(each), f"**{counted[name]:,} B**" if name in counted else "not yet"
        row = CURVES[name] | {"label": labels[name], "modelled": modelled[name], "counted": moved}
        row |= {"seconds": modelled[name] / gpu.hbm_bandwidth, "chip": chip}
        row |= {"holds": "; ".join(part.name for part in kernel.parts)}
        formulas.append(row | {"color": "green" if chip <= memory else "red"})
    with page:
        WORDS.draw(
            "bytes",
            bytes=bytes_figure(bars, least, colors()),
            rule=RULE,
            with_lse=with_lse,
            where=where_counted(ready),
            row_wise=WORDS("row-wise" if rows else "no row", rows=kept, times=times, **given),
            race=stage("text", "flash2", {"place": "bytes:0"}, versus="standard"),
            inner_loops=_inner_loops(traces),
            formulas=WORDS.rows("formulas", formulas),
            least_standard=standard_bytes(problem),
            **given,
            watch=[(f"Watch {labels[name]}", problems[name], name) for name in problems],
        )


def _predict(problem: AttentionProblem) -> None:
    wider = tiles_of(problem.q_len, 2 * problem.block_m)
    half, same, double = "half as many", "as many", "twice as many"
    key, right = f"io_block_m_{problem.q_len}_{problem.block_m}", half if wider < problem.q_tiles else same
    ask(WORDS, "question", key, (half, same, double), right, problem=problem, wider=wider)


def _inner_loops(traces: dict[str, Trace]) -> str:
    """What one step of each inner loop asks for, counted: it decides which order moves less."""
    if not {"flash1", "flash2"} <= set(traces):
        return "**One step of the inner loop**: shown once the runs are counted."
    first = lesson.inner_step_bytes(traces["flash1"], ("Q", "O", "m", "l"))
    second = lesson.inner_step_bytes(traces["flash2"], ("K", "V"))
    return WORDS("inner loops", first=first, second=second, steps=traces["flash2"].steps)


def _growth() -> None:
    """Bytes of every algorithm over one of N, d and SRAM; the other two are the reader's."""
    WORDS.draw("Growth")
    gpu = GPUS[DEFAULT_GPU]
    room = " and ".join(f"{format_kib(limit)} of {memory}" for memory, limit in gpu.program_limits.items())
    with st.container(horizontal=True, gap="medium"):
        problem = _shape()
        memory = slider("SRAM, KiB", MEMORIES_KIB, 64, "io_m", WORDS("room", gpu=gpu, room=room)) << 10
    axis = switch("Axis", (f"against {axis}" for axis in AXES), "io_axis").removeprefix("against ")
    length, d, size = problem.q_len, problem.head_dim, problem.itemsize
    sweeps: dict[str, tuple[int, Points]] = {
        "N": (length, {value: (value, d, memory) for value in LENGTHS}),
        "d": (d, {value: (length, value, memory) for value in HEAD_DIMS}),
        "SRAM": (memory >> 10, {value: (length, d, value << 10) for value in MEMORIES_KIB}),
    }
    here, sweep = sweeps[axis]
    curves: Curves = {}
    for name, look in CURVES.items():
        moved = [lesson.curve_bytes(name, n, d, room // size, size) for n, d, room in sweep.values()]
        curves[look["label"]] = (moved, look["color"], look["dash"])
    page, counting = st.container(), st.container()
    with counting:
        points = _counted_points(sweep, size)
    with page:
        WORDS.draw(
            "curves",
            growth=growth_figure(list(sweep), curves, points, AXES[axis], here, colors()),
            rule=RULE,
            tiles=lesson.largest_blocks("flash2", memory // size, d),
            orders=WORDS.rows("orders", CURVES.values()),
            **_tiles_that_fit(problem, memory),
        )


def _counted_points(sweep: Points, size: int) -> dict[str, list[tuple[int, int]]]:
    """Label of a curve -> (value on the axis, bytes counted) of each run that is ready."""
    wanted = {}
    for value, (length, d, room) in sweep.items():
        for name in ("flash1", "flash2"):
            block_m, block_n = lesson.largest_blocks(name, room // size, d)
            if {block_m, block_n} <= set(TILE_SIZES):  # the kernels accept the curve's own tiles
                problem = AttentionProblem(q_len=length, kv_len=length, head_dim=d)
                problem = problem.with_(block_m=block_m, block_n=block_n)
                if count_tiles(problem).visited <= POINT_STEPS:
                    wanted[problem, name] = value
    if not wanted:
        st.caption(WORDS("no point", steps=POINT_STEPS))
        return {}
    points: dict[str, list[tuple[int, int]]] = {}
    for (problem, name), run in counted_runs(list(wanted), "io_growth", ask=True).items():
        points.setdefault(CURVES[name]["label"], []).append((wanted[problem, name], run.trace.total_bytes))
    return points


def _tiles_that_fit(problem: AttentionProblem, memory_bytes: int) -> dict[str, Any]:
    """The largest tiles by the rule, forward and backward, and what recorded kernels took."""
    d, memory = problem.head_dim, memory_bytes // problem.itemsize
    forward, backward = (lesson.query_outer_blocks(memory, d, share) for share in (4, 8))
    compiled = [_nearest_launch(kernel.name, problem) for kernel in (FORWARD, DK_DV)]
    needed = sum(lesson.backward_blocks(forward, d).values())
    compiled_rows = (
        {"launch": each, "problem": each.problem, "info": each.info, "threads": 32 * each.info.num_warps}
        for each in compiled
    )
    return {
        "held": WORDS.rows("held", _held(problem, memory_bytes, forward, backward)),
        "memory": memory,
        "d": d,
        "quarter": memory // 4,
        "forward": forward,
        "blocks": lesson.forward_blocks(forward, d),
        "backward": backward,
        "needed": needed,
        "share": needed / memory,
        "launched": compiled[0].problem.head_dim,
        "compiled": WORDS.rows("compiled kernels", compiled_rows),
    }


def _held(
    problem: AttentionProblem, memory: int, forward: lesson.BlockSizes, backward: lesson.BlockSizes
) -> Iterator[dict]:
    """The blocks that a step holds, in bytes, by how large its tiles are, and whether they fit."""
    for step, sizes, blocks in (
        ("forward, largest", forward, lesson.forward_blocks),
        ("backward, forward's tiles", forward, lesson.backward_blocks),
        ("backward, largest", backward, lesson.backward_blocks),
    ):
        parts = {name: count * problem.itemsize for name, count in blocks(sizes, problem.head_dim).items()}
        size = sum(parts.values())
        alike = {each: [name for name in parts if parts[name] == each] for each in parts.values()}
        shown = "; ".join(f"{', '.join(names)}: {significant(each / 1024)}" for each, names in alike.items())
        color = "green" if size <= memory else "red"
        yield {"step": step, "sizes": sizes, "blocks": shown, "size": size, "color": color}


def _nearest_launch(kernel: str, problem: AttentionProblem) -> RecordedLaunch:
    """The recorded launch of a kernel with the nearest d, and then the nearest tiles."""

    def distance(launch: RecordedLaunch) -> tuple[int, int]:
        its = launch.problem
        of_tiles = abs(its.block_m - problem.block_m) + abs(its.block_n - problem.block_n)
        return abs(its.head_dim - problem.head_dim), of_tiles

    both_ways = {each.problem.head_dim for each in recorded_launches() if each.kernel == DK_DV.name}
    own = (each for each in recorded_launches() if each.kernel == kernel)
    with_tiles = (each for each in own if each.has_product and each.problem.block_m >= 16)
    return min((each for each in with_tiles if each.problem.head_dim in both_ways), key=distance)
