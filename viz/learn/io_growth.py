"""How the traffic grows with N, d or the SRAM: curves by formula, points counted by the kernels."""

from __future__ import annotations

import streamlit as st

from kernels.algorithms import ALGORITHMS
from kernels.lessons import io as lesson
from kernels.problem import AttentionProblem
from kernels.problem.tiles import count_tiles
from viz.learn.controls import HEAD_DIMS, TILE_SIZES, switch
from viz.learn.counting_rule import RULE
from viz.learn.counts import counted_runs
from viz.learn.figures.io import Curve, growth_figure
from viz.learn.io_inputs import LENGTHS, MEMORIES_KIB, TrafficInputs, traffic_inputs
from viz.shared import runs
from viz.shared.formats import format_bytes, format_kib
from viz.shared.glossary import say
from viz.shared.layout import colors, plot

POINT_STEPS = 600
"""A point of a curve is counted if its run has at most this many tile steps."""
AXES = {"N": "N", "d": "d", "SRAM": "SRAM, KiB"}
CURVES = {
    "standard": ("standard, at least", "standard", "solid"),
    "row_wise": ("row-wise", "state", "solid"),
    "flash1": ("FlashAttention-1", "value", "solid"),
    "flash2": ("FlashAttention-2", "flash", "solid"),
    "compulsory": ("inputs and outputs once", "text", "dot"),
    "lower_bound": ("N²d²/SRAM, order of the lower bound", "muted", "dash"),
}
"""Name of a curve -> its label, palette entry and dash."""
ORDERS = {
    "standard": "N^2",
    "row_wise": r"N^3d/\text{SRAM},\;\;Nd\text{ if all fits}",
    "flash1": r"N^2d^2/\text{SRAM}",
    "flash2": r"N^2d^2/\text{SRAM}",
    "compulsory": "Nd",
}

RULES = (
    "- **standard**: part 1 has tiles, so K and V are read again for each query tile. Here each kernel reads "
    "its inputs once.",
    "- **row-wise**: part 1 counts scores and sums in float32, as a program keeps them, and takes a power of "
    "two of rows. Here all is in float16, and any number of rows will do.",
    "- **FlashAttention-1 and 2**: part 1 has the tiles that you choose. Here the tile that stays on the "
    "chip takes a quarter of the SRAM.",
)
"""How part 1 chooses the tiles of each way, and how this part does."""

SweepPoint = tuple[int, int, int]
"""N, d, SRAM in bytes."""


def _axis() -> str:
    """The quantity to sweep: a key of AXES."""
    return switch("Axis", (f"against {axis}" for axis in AXES), "io_axis").removeprefix("against ")


def growth_view(store: runs.RunStore | None, backend: str) -> None:
    """Bytes of every algorithm over one of N, d and SRAM; the other two are the reader's."""
    say(
        "What happens to the bytes if the text gets longer, head_dim larger, or the [[SRAM]] smaller? Choose "
        "what grows along the axis. Both axes are logarithmic, so a steeper line grows by a larger factor, "
        "and the vertical line is where you are."
    )
    inputs = traffic_inputs(tiles=False)
    axis = _axis()
    sweep = _sweep(inputs, axis)
    here = {"N": inputs.length, "d": inputs.d, "SRAM": inputs.memory_bytes >> 10}[axis]
    curves = [
        Curve(label, list(sweep), _curve(name, sweep, inputs.problem.itemsize), color, dash)
        for name, (label, color, dash) in CURVES.items()
    ]
    figure, counting = st.container(), st.container()
    with counting:
        points = _counted_points(sweep, inputs.problem.itemsize, store, backend)
    with figure:
        plot(growth_figure(curves, points, AXES[axis], here, colors()), key="io_growth")
        say(
            f"{RULE} Standard attention has no tiles here, so its line is the least. Lines: **modelled**, "
            "with the largest tiles that the SRAM allows. Four tiles fill it, all in float16: in "
            "FlashAttention-2 those of Q, O, S, and K or V; in FlashAttention-1 those of K, V, S, and Q or "
            "O. Each takes at most a quarter (Chu, Liu and Lin 2026, eq 44). Row-wise attention takes as "
            "many whole rows of S as fit beside Q, O, and K or V. Dots: **counted** by the kernels, if they "
            "accept exactly those tiles. A line ends when not one row fits. Lower bound: no exact algorithm "
            "beats that order for every SRAM from d to Nd (Dao et al. 2022, proposition 3).",
            small=True,
        )
        st.markdown(forward_words(inputs))
    with st.expander("By which factor the bytes change if N, d or the SRAM doubles"):
        _growth_table(inputs)


def forward_words(inputs: TrafficInputs) -> str:
    """A table of each way's tiles and bytes, here and in part 1, and of the rules that set them."""
    problem = inputs.problem
    tallest = lesson.row_wise_block(problem, inputs.memory_bytes)
    queries = f"{problem.block_m:,} queries"
    there = {
        "standard": (queries, problem),
        "row_wise": tallest and (f"{tallest:,} rows", problem.with_(block_m=tallest)),
        "flash1": (f"{problem.block_n:,} keys", problem),
        "flash2": (queries, problem),
    }
    rows = ["| | tile here | bytes here | tile in part 1 | bytes in part 1 |", "|:--|:--|--:|:--|--:|"]
    for name, part_1 in there.items():
        tile, moved = _own_tile(name, inputs)
        cells = [CURVES[name][0].partition(",")[0], tile, "–" if moved is None else format_bytes(moved)]
        if part_1:
            tile_there, problem_there = part_1
            cells += [tile_there, format_bytes(ALGORITHMS[name].requested_bytes(problem_there))]
        else:
            cells += ["none fits", "–"]
        rows.append(f"| {' | '.join(cells)} |")
    opening = "**The tiles follow other rules than in part 1**, so bytes differ. At your point (modelled):"
    return "\n".join([opening, "", *rows, "", *RULES])


def _own_tile(name: str, inputs: TrafficInputs) -> tuple[str, int | None]:
    """The tile that this part gives a way at the reader's point, in words, and its bytes; None: none fits."""
    memory, length, d = inputs.memory, inputs.length, inputs.d
    tile = {
        "standard": "none",
        "row_wise": f"{lesson.row_wise_rows(length, d, memory):,} rows",
        "flash1": f"{lesson.key_outer_blocks(memory, d).key:,} keys",
        "flash2": f"{lesson.query_outer_blocks(memory, d, 4).query:,} queries",
    }[name]
    moved = lesson.curve_bytes(name, length, d, memory, inputs.problem.itemsize)
    return ("none fits", None) if moved is None else (tile, int(moved))


def _sweep(inputs: TrafficInputs, axis: str) -> dict[int, SweepPoint]:
    """Value on the axis -> the point there."""
    if axis == "N":
        return {length: (length, inputs.d, inputs.memory_bytes) for length in LENGTHS}
    if axis == "d":
        return {d: (inputs.length, d, inputs.memory_bytes) for d in HEAD_DIMS}
    return {kib: (inputs.length, inputs.d, kib << 10) for kib in MEMORIES_KIB}


def _curve(name: str, sweep: dict[int, SweepPoint], size: int) -> list[float | None]:
    return [
        lesson.curve_bytes(name, length, d, memory_bytes // size, size)
        for length, d, memory_bytes in sweep.values()
    ]


def _counted_points(
    sweep: dict[int, SweepPoint], size: int, store: runs.RunStore | None, backend: str
) -> dict[str, list[tuple[int, int]]]:
    """Label of a curve -> (value on the axis, bytes counted) of each run that is ready."""
    accepted = {
        (name, value): problem
        for value, point in sweep.items()
        for name in ("flash1", "flash2")
        if (problem := _kernel_problem(name, *point, size)) is not None
    }
    runnable = {
        item: problem for item, problem in accepted.items() if count_tiles(problem).visited <= POINT_STEPS
    }
    if not accepted:
        st.caption(
            "No point can be counted: eq 44 gives tiles that the kernels do not accept. Choose another d, or "
            "an SRAM that is another power of two."
        )
    elif not runnable:
        st.caption(
            f"No point is counted: each run has more than {POINT_STEPS} tile steps. Choose a smaller N."
        )
    if not runnable:
        return {}
    wanted = [(problem, name) for (name, _), problem in runnable.items()]
    ready = counted_runs(store, backend, wanted, "io_growth", ask=True)
    points: dict[str, list[tuple[int, int]]] = {}
    for (name, value), problem in runnable.items():
        if (run := ready.get((problem, name))) is not None:
            points.setdefault(CURVES[name][0], []).append((value, run.trace.total_bytes))
    return points


def _kernel_problem(name: str, length: int, d: int, memory_bytes: int, size: int) -> AttentionProblem | None:
    """The problem with the curve's own tiles; None if the kernels do not accept them."""
    memory = memory_bytes // size
    if name == "flash2":
        blocks = lesson.query_outer_blocks(memory, d, 4)
    else:
        blocks = lesson.key_outer_blocks(memory, d)
    if blocks.query not in TILE_SIZES or blocks.key not in TILE_SIZES:
        return None
    return AttentionProblem(q_len=length, kv_len=length, head_dim=d, block_m=blocks.query, block_n=blocks.key)


def _growth_table(inputs: TrafficInputs) -> None:
    """The order of each algorithm, and the factors at the reader's point."""
    here = f"N = {inputs.length:,}, d = {inputs.d}, SRAM = {format_kib(inputs.memory_bytes)}"
    st.markdown(f"**Bytes change by this factor**, from {here} (modelled)")
    rows = ["| | order | N doubles | d doubles | SRAM doubles |", "|:--|:--|--:|--:|--:|"]
    for name, order in ORDERS.items():
        factors = lesson.growth(name, inputs.length, inputs.d, inputs.memory, inputs.problem.itemsize)
        entries = ["does not fit" if value is None else f"× {value:.2f}" for value in factors.values()]
        rows.append(f"| {CURVES[name][0]} | $O({order})$ | {' | '.join(entries)} |")
    st.markdown("\n".join(rows))
    st.caption(
        "Orders: eq 30, 39, 45 and 50 of Chu, Liu and Lin 2026. The factors differ from the orders because "
        "tiles are rounded, and because Q and O count too."
    )
