"""Which tiles fit in SRAM: the conditions, forward and backward, and what compiled kernels use."""

from __future__ import annotations

import streamlit as st

from kernels.algorithms.backward.entry import DK_DV
from kernels.algorithms.flash2.entry import FORWARD
from kernels.device.gpus import Gpu
from kernels.lessons import io as lesson
from kernels.problem import AttentionProblem
from kernels.recordings import RecordedLaunch, recorded_launches
from viz.learn.figures.io import SramBar, blocks_figure
from viz.learn.io_inputs import traffic_inputs
from viz.shared.formats import format_count, format_kib
from viz.shared.glossary import say
from viz.shared.layout import colors, explore_link, plot


def sram_view() -> None:
    """Blocks in bytes, against the chosen SRAM and the GPU's shared memory."""
    say(
        "Large [[tile|tiles]] save traffic, but what a step works with has to fit into the [[SRAM]] at the "
        "same time. Each bar below is one step. The first two have the largest tiles that fit by a simple "
        "rule. The third is a step of the [[backward]] pass, which has eight blocks instead of four, with "
        "the tiles of the forward pass: they no longer fit. The next two have your own tiles. The last two "
        "are the shared memory that our compiled kernels take, without their [[registers]]. **SRAM** means "
        "here all that one [[program]] may keep [[on the chip]], shared memory and registers together."
    )
    inputs = traffic_inputs()
    problem, memory_bytes, gpu = inputs.problem, inputs.memory_bytes, inputs.gpu
    size, d = problem.itemsize, problem.head_dim
    memory = memory_bytes // size
    forward, backward = (lesson.query_outer_blocks(memory, d, share) for share in (4, 8))
    if not backward.usable:
        st.error(
            f"{format_kib(memory_bytes)} of SRAM are too few for a tile of d = {d}: not one row fits. "
            "Choose more SRAM or a smaller d."
        )
        return
    launches, room = _nearest_launches(problem), gpu.shared_bytes_per_program
    limits = {
        f"SRAM: {format_kib(memory_bytes)}": memory_bytes,
        f"{gpu.name}: {format_kib(room)} per program": room,
    }
    bars = [*_block_bars(problem, forward, backward), *_compiled_bars(launches, room)]
    plot(blocks_figure(bars, limits, colors()), key="io_blocks")
    st.caption(
        "**Modelled**: blocks that the inner loop holds, all in float16, as Chu, Liu and Lin 2026 count "
        "them: without m, l and lse. K/V is one place, since V replaces K once K is used. **Recorded**: "
        "shared memory of the compiled kernel, from the table that is folded below."
    )
    st.markdown(room_words(problem, launches))
    with st.expander("The rule for the largest tiles, forward and backward"):
        left, right = st.columns(2, gap="large")
        with left:
            _forward_rule(memory, d, forward)
        with right:
            _backward_rule(memory, d, forward, backward)
    with st.expander("What our compiled kernels use: shared memory and registers"):
        _compiled_table(gpu, launches)
    with st.container(horizontal=True):
        explore_link("Forward with your tiles", problem, "flash2")
        explore_link("Backward with your tiles", problem, "backward")


def _block_bars(
    problem: AttentionProblem, forward: lesson.BlockSizes, backward: lesson.BlockSizes
) -> list[SramBar]:
    """The blocks of both passes, with the tiles of the formulas and with the reader's."""
    size, d = problem.itemsize, problem.head_dim
    yours = lesson.BlockSizes(problem.block_m, problem.block_n)
    return [
        _bar("forward, largest", forward, lesson.forward_blocks(forward, d), size),
        _bar("backward, largest", backward, lesson.backward_blocks(backward, d), size),
        _bar("backward, forward's tiles", forward, lesson.backward_blocks(forward, d), size),
        _bar("your tiles, forward", yours, lesson.forward_blocks(yours, d), size),
        _bar("your tiles, backward", yours, lesson.backward_blocks(yours, d), size),
    ]


def _bar(label: str, sizes: lesson.BlockSizes, blocks: tuple[lesson.Block, ...], size: int) -> SramBar:
    return SramBar(
        f"{label}<br>{sizes.query} × {sizes.key}", [(block.tensor, block.elements * size) for block in blocks]
    )


def _compiled_bars(launches: list[RecordedLaunch], room: int) -> list[SramBar]:
    """Shared memory of the nearest recorded forward kernel and dK/dV kernel; `room` is what the GPU has."""
    bars = []
    for name in (FORWARD.name, DK_DV.name):
        if launch := _launch_of(name, launches):
            blocks = [("shared memory", launch.info.shared_bytes)]
            label = f"our {name}, recorded<br>{_tile_words(launch)}, d = {launch.problem.head_dim}"
            bars.append(SramBar(label, blocks, room))
    return bars


def _launch_of(name: str, launches: list[RecordedLaunch]) -> RecordedLaunch | None:
    return next((launch for launch in launches if launch.kernel == name), None)


def _tile_words(launch: RecordedLaunch) -> str:
    return f"{launch.problem.block_m} × {launch.problem.block_n}"


def room_words(problem: AttentionProblem, launches: list[RecordedLaunch]) -> str:
    """Why the same tiles have several numbers of bytes, and what the recorded bars leave out."""
    blocks = lesson.forward_blocks(lesson.BlockSizes(problem.block_m, problem.block_n), problem.head_dim)
    lines = [
        f"**How much room do your tiles take forward?** Three counts, for {problem.block_m} × "
        f"{problem.block_n}:",
        f"- by the simple rule **{format_kib(lesson.elements(blocks) * problem.itemsize)}** (modelled): all "
        "in float16, one place for K and V;",
        f"- in the folded cards of part 1 **{format_kib(FORWARD.chip_bytes(problem))}** (modelled): as our "
        "kernel keeps them, with a place each for K and V, and S, O, m and l in float32;",
    ]
    forward, backward = (_launch_of(name, launches) for name in (FORWARD.name, DK_DV.name))
    if forward is None or backward is None:
        return "\n".join(lines)
    lines.append(
        f"- as compiled, with tiles of {_tile_words(forward)} and d = {forward.problem.head_dim}: "
        f"**{format_kib(forward.info.shared_bytes)}** of shared memory (recorded), with room for "
        "tiles that are loaded ahead. S and the sums are in registers, which this number leaves out."
    )
    return "\n".join([*lines, "", _backward_words(forward, backward)])


def _backward_words(forward: RecordedLaunch, backward: RecordedLaunch) -> str:
    """Why the recorded bar of the backward kernel says little about the room that it needs."""
    shorter = backward.info.shared_bytes < forward.info.shared_bytes
    asked = (
        "**Why is the last bar the shorter one, if the backward pass needs more room?** "
        if shorter
        else "**The last two bars are shared memory alone.** "
    )
    (first, in_first), (second, in_second) = (
        (launch, 4 * launch.info.registers * launch.info.num_warps * 32) for launch in (forward, backward)
    )
    return (
        f"{asked}`{first.kernel}` loads its tiles in {format_count(first.info.num_stages, 'stage')}, with "
        f"room for tiles in each; `{second.kernel}` in {format_count(second.info.num_stages, 'stage')}. And "
        f"the sums are not in the bars: they are in registers, {format_kib(in_second)} in all threads "
        f"backward, {format_kib(in_first)} forward. Shared memory and registers together are "
        f"{format_kib(backward.info.shared_bytes + in_second)} backward and "
        f"{format_kib(forward.info.shared_bytes + in_first)} forward (recorded)."
    )


def _forward_rule(memory: int, d: int, sizes: lesson.BlockSizes) -> None:
    st.markdown(
        "**Forward: four blocks (Q, O, K or V, S), at most a quarter of the SRAM each**\n\n"
        rf"$\text{{BLOCK\_M}}=\left\lfloor\frac{{\text{{SRAM}}}}{{4d}}\right\rfloor"
        rf"=\left\lfloor\frac{{{memory}}}{{4\cdot{d}}}\right\rfloor={sizes.query}$, "
        rf"$\quad\text{{BLOCK\_N}}=\min(\text{{BLOCK\_M}},d)={sizes.key}$"
        "\n\n"
        rf"Q and O have ${sizes.query * d}$ numbers each, K or V ${sizes.key * d}$, S "
        rf"${sizes.query * sizes.key}$: each $\le {memory // 4}$, a quarter."
    )
    st.caption("Rule of Chu, Liu and Lin 2026 (eq 44), in numbers of the inputs' type.")


def _backward_rule(memory: int, d: int, forward: lesson.BlockSizes, backward: lesson.BlockSizes) -> None:
    needed = lesson.elements(lesson.backward_blocks(forward, d))
    st.markdown(
        "**Backward: eight blocks (with the gradients dQ, dK, dV), at most an eighth each**\n\n"
        rf"$\text{{BLOCK\_M}}=\left\lfloor\frac{{\text{{SRAM}}}}{{8d}}\right\rfloor={backward.query}$, "
        rf"$\quad\text{{BLOCK\_N}}=\min(\text{{BLOCK\_M}},d)={backward.key}$"
        "\n\n"
        rf"With the tiles of the forward pass: ${needed}$ numbers, "
        f":{'red' if needed > memory else 'green'}[**{needed / memory:.2f} times the SRAM**]."
    )
    st.caption(
        "Rule of Chu, Liu and Lin 2026 (eq 79). With the forward tiles Q, dO and dQ fill three quarters of "
        "the SRAM, and K, V, dK, dV and P do not fit into the rest."
    )


def _nearest_launches(problem: AttentionProblem) -> list[RecordedLaunch]:
    """Recorded kernels that multiply tiles, of the d nearest to the reader's; nearest tiles first."""
    with_tiles = [
        launch for launch in recorded_launches() if launch.has_product and launch.problem.block_m >= 16
    ]
    distances = {
        launch.problem.head_dim: abs(launch.problem.head_dim - problem.head_dim) for launch in with_tiles
    }
    nearest = min(distances.values(), default=0)
    near = [launch for launch in with_tiles if distances[launch.problem.head_dim] == nearest]
    near.sort(key=lambda launch: _tile_distance(launch.problem, problem))
    unique = {
        (launch.kernel, launch.problem.block_m, launch.problem.block_n, launch.problem.dtype): launch
        for launch in reversed(near)
    }
    return list(reversed(unique.values()))


def _tile_distance(first: AttentionProblem, second: AttentionProblem) -> int:
    return abs(first.block_m - second.block_m) + abs(first.block_n - second.block_n)


def _compiled_table(gpu: Gpu, launches: list[RecordedLaunch]) -> None:
    """Shared memory and registers of recorded kernels; the registers hold S, P and the sums."""
    st.markdown("**What our compiled kernels use** (recorded)")
    rows = [
        "| kernel | tiles, d | stages | shared memory | share | registers per thread | GPU |",
        "|:--|:--|--:|--:|--:|--:|:--|",
    ]
    for launch in launches:
        problem, info = launch.problem, launch.info
        share = info.shared_bytes / gpu.shared_bytes_per_program
        rows.append(
            f"| `{launch.kernel}` | {problem.block_m} × {problem.block_n}, {problem.head_dim} "
            f"{problem.dtype} "
            f"| {info.num_stages} | {format_kib(info.shared_bytes)} | {share:.1%} "
            f"| {info.registers} × {info.num_warps * 32} threads | {launch.device} |"
        )
    st.markdown("\n".join(rows))
    st.caption(
        "Two things differ from the model: S, P, O and the sums of the gradients are in registers, which "
        "makes it less, and K and V are there once for each stage of the load pipeline, which makes it "
        f"more. Share: of the {format_kib(gpu.shared_bytes_per_program)} that a program can have on the "
        f"{gpu.name}."
    )
