"""Which tiles fit in SRAM: the conditions, forward and backward, and what compiled kernels use."""

import streamlit as st

from kernels.algorithms.backward.entry import DK_DV
from kernels.algorithms.flash2.entry import FORWARD
from kernels.device.gpus import Gpu
from kernels.problem import AttentionProblem
from kernels.recordings import RecordedLaunch, recorded_launches
from viz.learn.io import maths as lesson
from viz.learn.io.figures import SramBar, blocks_figure
from viz.learn.words import Words, links
from viz.shared.formats import format_kib
from viz.shared.layout import colors


def draw_blocks(words: Words, problem: AttentionProblem, memory_bytes: int, gpu: Gpu) -> None:
    """Blocks of the largest tiles and of the reader's, and of recorded kernels, and the rules folded."""
    words.draw("SRAM")
    d, memory = problem.head_dim, memory_bytes // problem.itemsize
    forward, backward = (lesson.query_outer_blocks(memory, d, share) for share in (4, 8))
    if not min(backward):
        st.error(words("too few", memory=memory_bytes, d=d))
        return
    launches, room = _nearest_launches(problem), gpu.shared_bytes_per_program
    compiled = [
        next(launch for launch in launches if launch.kernel == name) for name in (FORWARD.name, DK_DV.name)
    ]
    bars = [
        *_modelled_bars(problem, forward, backward),
        *(
            SramBar(
                f"our {launch.kernel}, recorded<br>{_tiles_and_d(launch)}",
                [("shared memory", launch.info.shared_bytes)],
                room,
            )
            for launch in compiled
        ),
    ]
    limits = {
        f"SRAM: {format_kib(memory_bytes)}": memory_bytes,
        f"{gpu.name}: {format_kib(room)} per program": room,
    }
    needed = sum(lesson.backward_blocks(forward, d).values())
    yours = lesson.BlockSizes(problem.block_m, problem.block_n)
    compiled_rows = (
        {"launch": each, "problem": each.problem, "info": each.info}
        | {"share": each.info.shared_bytes / room, "threads": 32 * each.info.num_warps}
        for each in launches
    )
    words.draw(
        "blocks",
        figure=blocks_figure(bars, limits, colors()),
        problem=problem,
        simple=sum(lesson.forward_blocks(yours, d).values()) * problem.itemsize,
        chip=FORWARD.chip_bytes(problem),
        tiles=_tiles_and_d(compiled[0]),
        shared=compiled[0].info.shared_bytes,
        memory=memory,
        d=d,
        quarter=memory // 4,
        forward=forward,
        blocks=lesson.forward_blocks(forward, d),
        backward=backward,
        needed=needed,
        share=needed / memory,
        compiled=words.rows("compiled kernels", compiled_rows),
        gpu=gpu,
    )
    links(("Forward with your tiles", problem, "flash2"), ("Backward with your tiles", problem, "backward"))


def _modelled_bars(
    problem: AttentionProblem, forward: lesson.BlockSizes, backward: lesson.BlockSizes
) -> list[SramBar]:
    yours = lesson.BlockSizes(problem.block_m, problem.block_n)
    return [
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


def _tiles_and_d(launch: RecordedLaunch) -> str:
    return f"{launch.problem.block_m} × {launch.problem.block_n}, d = {launch.problem.head_dim}"


def _nearest_launches(problem: AttentionProblem) -> list[RecordedLaunch]:
    """Recorded kernels that multiply tiles, of the d nearest to the reader's; nearest tiles first."""

    def distance(launch: RecordedLaunch) -> tuple[int, int]:
        its = launch.problem
        of_tiles = abs(its.block_m - problem.block_m) + abs(its.block_n - problem.block_n)
        return abs(its.head_dim - problem.head_dim), of_tiles

    with_tiles = [each for each in recorded_launches() if each.has_product and each.problem.block_m >= 16]
    nearest = min(map(distance, with_tiles))[0]
    unique: dict[tuple, RecordedLaunch] = {}
    for launch in sorted((each for each in with_tiles if distance(each)[0] == nearest), key=distance):
        its = launch.problem
        unique.setdefault((launch.kernel, its.block_m, its.block_n, its.dtype), launch)
    return list(unique.values())
