"""Which tiles fit in SRAM: the slides' conditions, the paper's backward tiles that do not fit, and what compiled kernels take."""

from __future__ import annotations

import streamlit as st

from kernels.algorithms.backward.entry import DK_DV
from kernels.algorithms.flash2.entry import FORWARD
from kernels.device.gpus import Gpu
from kernels.lessons import io as lesson
from kernels.problem import AttentionProblem
from kernels.recordings import RecordedLaunch, recorded_launches
from viz.learn.figures.io import SramBar, blocks_figure
from viz.shared import theme
from viz.shared.layout import colors, explore_link, plot


def sram_view(problem: AttentionProblem, memory_bytes: int, gpu: Gpu) -> None:
    """Blocks in bytes of the problem's type against M and the GPU's shared memory."""
    size, d = problem.itemsize, problem.head_dim
    memory = memory_bytes // size
    forward, backward, paper = (lesson.query_outer_blocks(memory, d, share) for share in (4, 8, 4))
    if not backward.usable:
        st.error(
            f"M = {theme.format_kib(memory_bytes)} holds no tile of d = {d}: eq 79 gives no row. Choose a larger M or a smaller d."
        )
        return
    yours = lesson.BlockSizes(problem.block_m, problem.block_n)
    bars = [
        _bar("forward, eq 44", forward, lesson.forward_blocks(forward, d), size),
        _bar("backward, eq 79", backward, lesson.backward_blocks(backward, d), size),
        _bar("backward, the paper's", paper, lesson.backward_blocks(paper, d), size),
        _bar("your tiles, forward", yours, lesson.forward_blocks(yours, d), size),
        _bar("your tiles, backward", yours, lesson.backward_blocks(yours, d), size),
    ]
    launches = _nearest_launches(problem)
    bars += _compiled_bars(launches)
    limits = {
        f"M = {theme.format_kib(memory_bytes)}": memory_bytes,
        f"{gpu.name}: {theme.format_kib(gpu.shared_bytes_per_program)} a program": gpu.shared_bytes_per_program,
    }
    plot(blocks_figure(bars, limits, colors()), key="io_blocks")
    st.caption(
        "**Modelled**: blocks that the inner loop holds, all in float16, as the slides (Chu, Liu and Lin 2026) count them, without m, l and lse. "
        "K/V: one place, since V takes K's once K is used. **Recorded**: shared memory of the compiled kernel, table below."
    )
    left, right = st.columns(2, gap="large")
    with left:
        _forward_rule(memory, d, forward)
    with right:
        _backward_rule(memory, d, backward, paper)
    _compiled(gpu, launches)
    with st.container(horizontal=True):
        explore_link("Forward with your tiles", problem, "flash2")
        explore_link("Backward with your tiles", problem, "backward")


def _bar(label: str, sizes: lesson.BlockSizes, blocks: tuple[lesson.Block, ...], size: int) -> SramBar:
    return SramBar(
        f"{label}<br>{sizes.query} × {sizes.key}", [(block.tensor, block.elements * size) for block in blocks]
    )


def _compiled_bars(launches: list[RecordedLaunch]) -> list[SramBar]:
    """Shared memory of the nearest recorded forward and dK/dV kernel."""
    bars = []
    for kernel in (FORWARD.name, DK_DV.name):
        if launch := next((launch for launch in launches if launch.kernel == kernel), None):
            tile = f"{launch.problem.block_m} × {launch.problem.block_n}, d = {launch.problem.head_dim}"
            bars.append(
                SramBar(f"our {kernel}, recorded<br>{tile}", [("shared memory", launch.info.shared_bytes)])
            )
    return bars


def _forward_rule(memory: int, d: int, sizes: lesson.BlockSizes) -> None:
    st.markdown(
        f"**Forward: four blocks, a quarter of M each** (eq 44)\n\n"
        rf"$|I|=\left\lfloor\frac{{M}}{{4d}}\right\rfloor=\left\lfloor\frac{{{memory}}}{{4\cdot{d}}}\right\rfloor={sizes.query}$, "
        rf"$\quad|J|=\min(|I|,d)={sizes.key}$"
        "\n\n"
        rf"$|I|d={sizes.query * d}$, $\;|J|d={sizes.key * d}$, $\;|I||J|={sizes.query * sizes.key}$: each $\le M/4={memory // 4}$ elements."
    )
    st.caption(
        "The slides ask for < M/4 in eq 43. Where 4d divides M the blocks are exactly M/4, so the right sign is ≤: four of them then fill M."
    )


def _backward_rule(memory: int, d: int, sizes: lesson.BlockSizes, paper: lesson.BlockSizes) -> None:
    needed = lesson.elements(lesson.backward_blocks(paper, d))
    st.markdown(
        f"**Backward: eight blocks, an eighth of M each** (eq 79)\n\n"
        rf"$|I|=\left\lfloor\frac{{M}}{{8d}}\right\rfloor={sizes.query}$, $\quad|J|=\min(|I|,d)={sizes.key}$"
        "\n\n"
        rf"With the paper's $M/4d$: $\;3|I|d+4|J|d+|I||J|={needed}$ elements, "
        f":red[**{needed / memory:.2f} M**]."
    )
    st.caption(
        "Dao et al. 2022, algorithm 4, takes the forward tiles for the backward pass. Q, dO and dQ then fill three quarters of M, and K, V, dK, dV "
        "and P do not fit into the rest (found by Chu, Liu and Lin 2026). The paper rounds up, and gives the large tile to the keys, which stay "
        "in its loop."
    )


def _nearest_launches(problem: AttentionProblem) -> list[RecordedLaunch]:
    """Recorded kernels that hold tiles of queries and keys, of the recorded d nearest to the reader's; nearest tiles first, none twice."""
    found = [launch for launch in recorded_launches() if launch.has_product and launch.problem.block_m >= 16]
    nearest = min((abs(launch.problem.head_dim - problem.head_dim) for launch in found), default=0)
    near = [launch for launch in found if abs(launch.problem.head_dim - problem.head_dim) == nearest]
    near.sort(
        key=lambda launch: (
            abs(launch.problem.block_m - problem.block_m) + abs(launch.problem.block_n - problem.block_n)
        )
    )
    unique = {
        (launch.kernel, launch.problem.block_m, launch.problem.block_n, launch.problem.dtype): launch
        for launch in reversed(near)
    }
    return list(reversed(unique.values()))


def _compiled(gpu: Gpu, launches: list[RecordedLaunch]) -> None:
    """What the compiler gave to recorded kernels: shared memory, and registers, where S, P and the sums live."""
    st.markdown("**What our compiled kernels take** (recorded)")
    rows = [
        "| kernel | tiles, d | stages | shared memory | share | registers a thread | GPU |",
        "|:--|:--|--:|--:|--:|--:|:--|",
    ]
    for launch in launches:
        problem, info = launch.problem, launch.info
        share = info.shared_bytes / gpu.shared_bytes_per_program
        rows.append(
            f"| `{launch.kernel}` | {problem.block_m} × {problem.block_n}, {problem.head_dim} {problem.dtype} | {info.num_stages} "
            f"| {theme.format_kib(info.shared_bytes)} | {share:.1%} | {info.registers} × {info.num_warps * 32} threads | {launch.device} |"
        )
    st.markdown("\n".join(rows))
    st.caption(
        "Less than the slides count, since S, P, O and the gradients' sums live in registers; and more, since K and V are there once for each stage "
        f"of the load pipeline. Share: of the {theme.format_kib(gpu.shared_bytes_per_program)} that a program can have on the {gpu.name}."
    )
