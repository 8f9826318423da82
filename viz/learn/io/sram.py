"""Which tiles fit in SRAM: the conditions, forward and backward, and what compiled kernels use."""

from __future__ import annotations

import functools

import streamlit as st

from kernels.algorithms.backward.entry import DK_DV
from kernels.algorithms.flash2.entry import FORWARD
from kernels.device.gpus import Gpu
from kernels.problem import AttentionProblem
from kernels.recordings import RecordedLaunch, recorded_launches
from viz.learn.io import maths as lesson
from viz.learn.io.figures import SramBar, blocks_figure
from viz.learn.words import Words, links, table
from viz.shared.formats import format_kib
from viz.shared.layout import colors


def draw_blocks(words: Words, problem: AttentionProblem, memory_bytes: int, gpu: Gpu) -> None:
    """Blocks of the largest tiles and of the reader's, and of recorded kernels, and the rules folded."""
    d, memory = problem.head_dim, memory_bytes // problem.itemsize
    forward, backward = (lesson.query_outer_blocks(memory, d, share) for share in (4, 8))
    if not backward.usable:
        st.error(words("too few", memory=memory_bytes, d=d))
        return
    launches, room = _nearest_launches(problem), gpu.shared_bytes_per_program
    compiled = {
        name: next((launch for launch in launches if launch.kernel == name), None)
        for name in (FORWARD.name, DK_DV.name)
    }
    bars = _bars(problem, forward, backward, [launch for launch in compiled.values() if launch], room)
    limits = {
        f"SRAM: {format_kib(memory_bytes)}": memory_bytes,
        f"{gpu.name}: {format_kib(room)} per program": room,
    }
    needed = sum(lesson.backward_blocks(forward, d).values())
    rule = functools.partial(words.draw, memory=memory, d=d, quarter=memory // 4)
    blocks = lesson.forward_blocks(forward, d)
    words.draw(
        "blocks",
        blocks=blocks_figure(bars, limits, colors()),
        problem=problem,
        room=_room(problem, compiled[FORWARD.name]),
        rule_forward=functools.partial(rule, "rule forward", sizes=forward, blocks=blocks),
        rule_backward=functools.partial(
            rule, "rule backward", sizes=backward, needed=needed, share=needed / memory
        ),
        compiled=_compiled_table(gpu, launches),
        gpu=gpu,
    )
    links(("Forward with your tiles", problem, "flash2"), ("Backward with your tiles", problem, "backward"))


def _bars(
    problem: AttentionProblem,
    forward: lesson.BlockSizes,
    backward: lesson.BlockSizes,
    compiled: list[RecordedLaunch],
    room: int,
) -> list[SramBar]:
    """A step of each pass with the tiles of the rules and with the reader's, and the recorded kernels."""
    yours = lesson.BlockSizes(problem.block_m, problem.block_n)
    modelled = [
        SramBar(
            f"{label}<br>{sizes.query} × {sizes.key}",
            [(name, count * problem.itemsize) for name, count in blocks(sizes, problem.head_dim).items()],
        )
        for label, sizes, blocks in (
            ("forward, largest", forward, lesson.forward_blocks),
            ("backward, largest", backward, lesson.backward_blocks),
            ("backward, forward's tiles", forward, lesson.backward_blocks),
            ("your tiles, forward", yours, lesson.forward_blocks),
            ("your tiles, backward", yours, lesson.backward_blocks),
        )
    ]
    return modelled + [
        SramBar(
            f"our {launch.kernel}, recorded<br>{_tiles_and_d(launch)}",
            [("shared memory", launch.info.shared_bytes)],
            room,
        )
        for launch in compiled
    ]


def _tiles_and_d(launch: RecordedLaunch) -> str:
    return f"{launch.problem.block_m} × {launch.problem.block_n}, d = {launch.problem.head_dim}"


def _room(problem: AttentionProblem, compiled: RecordedLaunch | None) -> str:
    """Why the same tiles have several numbers of bytes."""
    blocks = lesson.forward_blocks(lesson.BlockSizes(problem.block_m, problem.block_n), problem.head_dim)
    rows = [
        (
            "the simple rule",
            format_kib(sum(blocks.values()) * problem.itemsize),
            "modelled",
            "all in float16, one place for K and V",
        ),
        (
            "the folded table of part 1",
            format_kib(FORWARD.chip_bytes(problem)),
            "modelled",
            "K and V have a place each; S, O, m and l are float32",
        ),
    ]
    if compiled:
        what = "shared memory alone, with room for tiles loaded ahead; S and the sums are in registers"
        size = format_kib(compiled.info.shared_bytes)
        rows.append((f"compiled, {_tiles_and_d(compiled)}", size, "recorded", what))
    return table("count | bytes: | origin | what is counted", rows)


def _nearest_launches(problem: AttentionProblem) -> list[RecordedLaunch]:
    """Recorded kernels that multiply tiles, of the d nearest to the reader's; nearest tiles first."""

    def d_distance(launch: RecordedLaunch) -> int:
        return abs(launch.problem.head_dim - problem.head_dim)

    def tile_distance(launch: RecordedLaunch) -> int:
        return abs(launch.problem.block_m - problem.block_m) + abs(launch.problem.block_n - problem.block_n)

    with_tiles = [each for each in recorded_launches() if each.has_product and each.problem.block_m >= 16]
    nearest = min(map(d_distance, with_tiles), default=0)
    unique: dict[tuple, RecordedLaunch] = {}
    for launch in sorted((each for each in with_tiles if d_distance(each) == nearest), key=tile_distance):
        tiles = (launch.problem.block_m, launch.problem.block_n, launch.problem.dtype)
        unique.setdefault((launch.kernel, *tiles), launch)
    return list(unique.values())


def _compiled_table(gpu: Gpu, launches: list[RecordedLaunch]) -> str:
    """Shared memory and registers of recorded kernels; the registers hold S, P and the sums."""
    return table(
        "kernel | tiles, d | stages: | shared memory: | share: | registers per thread: | GPU",
        (
            (
                f"`{launch.kernel}`",
                f"{problem.block_m} × {problem.block_n}, {problem.head_dim} {problem.dtype}",
                info.num_stages,
                format_kib(info.shared_bytes),
                f"{info.shared_bytes / gpu.shared_bytes_per_program:.1%}",
                f"{info.registers} × {info.num_warps * 32} threads",
                launch.device,
            )
            for launch in launches
            for problem, info in [(launch.problem, launch.info)]
        ),
    )
