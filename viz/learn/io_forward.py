"""Traffic of the forward pass: one bar and one card for each algorithm, modelled and counted."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.standard.traffic import standard_bytes
from kernels.lessons import io as lesson
from kernels.lessons.tiling import tiles_of
from kernels.problem import BLOCKS, AttentionProblem
from kernels.trace import Trace
from kernels.traffic.modelled import compulsory_bytes
from viz.learn.comparing import compared
from viz.learn.counting_rule import RULE
from viz.learn.counts import counted_runs, recorded_counts, where_counted
from viz.learn.figures.io import ByteBar, bytes_figure
from viz.learn.io_inputs import TrafficInputs, traffic_inputs
from viz.learn.predict import choose
from viz.shared import runs
from viz.shared.formats import format_bytes, format_count, format_kib, format_ms
from viz.shared.glossary import say
from viz.shared.layout import colors, explore_link, plot

INNER_LOOPS = {"flash1": ("Q", "O", "m", "l"), "flash2": ("K", "V")}
"""Algorithm -> the tensors that a step of its inner loop moves."""


@dataclass(frozen=True)
class ForwardEntry:
    """One algorithm of the forward view."""

    algorithm: str
    label: str
    color: str
    problem: AttentionProblem
    """With the tiles that the algorithm runs with."""
    formula: str

    @property
    def modelled(self) -> int:
        """Requested bytes, by the entry's formula."""
        return ALGORITHMS[self.algorithm].requested_bytes(self.problem)

    @property
    def on_chip(self) -> int:
        """Bytes that one program keeps, by the entry: of that kernel which keeps most."""
        return ALGORITHMS[self.algorithm].chip_bytes(self.problem)

    @property
    def on_chip_words(self) -> str:
        """What these bytes are."""
        kernel = max(ALGORITHMS[self.algorithm].kernels, key=lambda each: each.chip_bytes(self.problem))
        return "; ".join(part.name for part in kernel.parts)


def forward_view(store: runs.RunStore | None, backend: str) -> None:
    """The question, the figure, and folded the inner loops and a card for each algorithm."""
    say(
        "There are four ways to the same [[output|O]]:\n"
        "- [[standard attention|Standard attention]] writes S and P to [[HBM]] and reads them back.\n"
        "- [[row-wise attention|Row-wise attention]] keeps whole rows of S on the chip: the longer they are, "
        "the fewer it has room for.\n"
        "- [[FlashAttention-1]] keeps a [[key tile]], and goes through all queries.\n"
        "- [[FlashAttention-2]] keeps a [[query tile]], and goes through all keys. It is the kernel of the "
        "last chapter."
    )
    inputs = traffic_inputs()
    _predict(inputs.problem)
    entries = _entries(inputs)
    wanted = [(entry.problem, entry.algorithm) for entry in entries]
    figure, rest, counting = st.container(), st.container(), st.container()
    with counting:  # below the rest, which its progress would push down
        ready = counted_runs(store, backend, wanted, "io_forward")
        if backend == "replay":
            recorded_counts()
    traces = {algorithm: run.trace for (_, algorithm), run in ready.items()}
    totals = {name: trace.total_bytes for name, trace in traces.items()}
    bars = [
        ByteBar(entry.label, entry.modelled, totals.get(entry.algorithm), entry.color) for entry in entries
    ]
    problem = inputs.problem
    with figure:
        least, with_lse = (compulsory_bytes(problem, with_lse=lse) for lse in (False, True))
        plot(bytes_figure(bars, least, colors()), key="io_bytes")
        say(
            f"{RULE} The dotted line: at least Q, K and V in and O out, for a kernel that stores O alone; "
            f"{format_bytes(with_lse)} with lse, which FlashAttention stores too. **Counted** (solid): "
            f"{where_counted(ready)}. **Modelled** (hatched): by the formulas folded below. One head, "
            "float16, no mask.",
            small=True,
        )
    with rest:
        _say_row_wise(inputs, entries)
        with st.expander("One step of the inner loop: which tensors come and go"):
            _inner_loops(traces)
        with st.expander("The four formulas, the time of these bytes, and what each way keeps on the chip"):
            _cards(inputs, entries, totals)


def _cards(inputs: TrafficInputs, entries: list[ForwardEntry], totals: dict[str, int]) -> None:
    """A card for each algorithm, and what the letters in their formulas mean."""
    problem = inputs.problem
    for column, entry in zip(st.columns(len(entries)), entries, strict=True):
        with column.container(border=True, height="stretch"):
            _card(entry, totals.get(entry.algorithm), inputs)
    st.caption(
        f"$b={problem.itemsize}$ bytes per number, $t_q=\\lceil "
        f"N/\\text{{BLOCK\\_M}}\\rceil={problem.q_tiles}$ query tiles, $t_k=\\lceil "
        f"N/\\text{{BLOCK\\_N}}\\rceil={problem.kv_tiles}$ key tiles, $r$ rows of S at once. On the chip: "
        "what one program keeps in shared memory and registers, tiles in 16 bits, sums and scores in "
        "float32, as Explore draws it; of several kernels the one that keeps most. Part 3 says why it has "
        "other numbers for the same tiles. The softmax of standard attention could also take fewer rows at "
        "once: its bytes would stay the same. O of FlashAttention-1 waits in HBM in float32. Standard and "
        "row-wise attention are not Triton kernels: torch runs them tile by tile, and counts the slices "
        "that it reads and writes."
    )


def _predict(problem: AttentionProblem) -> None:
    """What BLOCK_M does to the bytes of K and V."""
    tiles = problem.q_tiles
    wider = tiles_of(problem.q_len, 2 * problem.block_m)
    half, same, double = "half as many", "as many", "twice as many"
    choose(
        f"io_block_m_{problem.q_len}_{problem.block_m}",
        f"FlashAttention-2 with BLOCK_M = {problem.block_m}: {format_count(tiles, 'query tile')}, each in a "
        "program of its own. Take twice as many queries per tile. How many bytes of K and V are asked for "
        "then?",
        (half, same, double),
        half if wider < tiles else same,
        f"Each program reads all of K and V once: {times(tiles)} in all now, and {times(wider)} with larger "
        "query tiles. That is why large query tiles are good, as long as they fit on the chip.",
    )


def _say_row_wise(inputs: TrafficInputs, entries: list[ForwardEntry]) -> None:
    """Which of row-wise attention and FlashAttention-1 moves less, why, and at which N that turns."""
    problem, room = inputs.problem, format_kib(inputs.memory_bytes)
    rows = lesson.row_wise_block(problem, inputs.memory_bytes)
    if rows is None:
        return
    turns, kv_tiles = tiles_of(inputs.length, rows), problem.kv_tiles
    travels = (
        f"FlashAttention-1 goes through all queries once per key tile, {times(kv_tiles)}, and each time it "
        "reads O, m and l and writes them back, in float32."
    )
    turning = lesson.turning_length(problem, inputs.memory_bytes)
    if lesson.row_wise_moves_less(problem, inputs.memory_bytes):
        end = "" if turning is None else f" Longer rows leave room for fewer of them: {_turn(*turning)}"
        say(
            "**Why does FlashAttention-1 move more than row-wise attention here?** At this N a program can "
            f"keep {rows:,} whole rows of S in {room}, so row-wise attention reads K and V only "
            f"{times(turns)}. {travels}{end}"
        )
        return
    end = "" if turning is None else f" Shorter rows leave room for more of them: {_turn(*turning)}"
    modelled = {entry.algorithm: entry.modelled for entry in entries}
    even = ", and even more than standard attention," * (modelled["row_wise"] > modelled["standard"])
    say(
        f"**Why does row-wise attention move more than FlashAttention-1{even} here?** A row of S has "
        f"{inputs.length:,} scores in float32, so a program can keep only {rows:,} whole rows (a "
        f"power of two) in {room}, and row-wise attention reads all of K and V {times(turns)}. {travels}{end}"
    )


def _turn(length: int, row_wise_moves_less: bool | None) -> str:
    """What is otherwise at another N."""
    if row_wise_moves_less is None:
        return f"at N = {length:,} not even a tile of the fewest rows fits (modelled)."
    which = "row-wise attention" if row_wise_moves_less else "FlashAttention-1"
    return f"at N = {length:,} {which} moves less (modelled)."


def times(count: int) -> str:
    """ "once", "16 times"."""
    return "once" if count == 1 else f"{count:,} times"


def _inner_loops(traces: dict[str, Trace]) -> None:
    """What one step of each inner loop asks for, counted: it decides which order moves less."""
    if not set(INNER_LOOPS) <= set(traces):
        st.markdown("**One step of the inner loop**: shown once the runs are counted.")
        return
    first, second = (lesson.inner_step_bytes(traces[name], moved) for name, moved in INNER_LOOPS.items())
    st.markdown(
        f"**One step of the inner loop**, counted: FlashAttention-1 asks for **{format_bytes(first)}** (Q, "
        f"O, m, l in; O, m, l out), FlashAttention-2 for **{format_bytes(second)}** (a tile of K and one of "
        f"V in), {compared(second, first)} FlashAttention-1. Both take {traces['flash2'].steps:,} steps. "
        "What a program loads or stores once is not in it: Q, O and lse of FlashAttention-2, K and V of "
        "FlashAttention-1."
    )


def _entries(inputs: TrafficInputs) -> list[ForwardEntry]:
    problem = inputs.problem
    formulas = {
        "standard": ("standard", "standard", r"4N^2b+2Ndb+2\,t_q\,Ndb"),
        "flash1": ("FlashAttention-1", "value", r"2Ndb+t_k\,N(db+8d+16)+N(db-4d+4)"),
        "flash2": ("FlashAttention-2", "flash", r"2Ndb+2\,t_q\,Ndb+4N"),
    }
    standard, *flash = (
        ForwardEntry(name, label, color, problem, formula)
        for name, (label, color, formula) in formulas.items()
    )
    return [standard, *_row_wise_entry(inputs), *flash]


def _row_wise_entry(inputs: TrafficInputs) -> list[ForwardEntry]:
    """Row-wise attention with the tallest tile of which all rows of S fit; empty if none fits."""
    rows = lesson.row_wise_block(inputs.problem, inputs.memory_bytes)
    if rows is None:
        st.caption(
            f"Row-wise is missing: even {min(BLOCKS)} rows of {inputs.length:,} scores in float32, with "
            f"their Q and O and a tile of K or V, do not fit into {format_kib(inputs.memory_bytes)}."
        )
        return []
    problem = inputs.problem.with_(block_m=rows)
    formula = r"2Ndb+2\lceil N/r\rceil\,Ndb"
    return [ForwardEntry("row_wise", f"row-wise, {rows:,} rows", "state", problem, formula)]


def _card(entry: ForwardEntry, counted: int | None, inputs: TrafficInputs) -> None:
    """Formula, bytes, time at the GPU's bandwidth, and what is on the chip."""
    if counted is None:
        counted_words = "not counted yet"
    else:
        counted_words = f"**{counted:,} B** counted"
    room = format_kib(inputs.memory_bytes)
    verdict = f":green[fits in {room}]" if entry.on_chip <= inputs.memory_bytes else f":red[more than {room}]"
    once = ""
    if entry.algorithm == "standard":
        once = f"at least {standard_bytes(entry.problem):,} B, if K and V stay in a cache  \n"
    moving = format_ms(entry.modelled / inputs.gpu.hbm_bandwidth * 1e3)
    speed = f"{format_bytes(inputs.gpu.hbm_bandwidth)}/s ({inputs.gpu.name})"
    st.markdown(
        f"**{entry.label}**\n\n${entry.formula}$\n\n= **{entry.modelled:,} B** requested, modelled  \n"
        f"{counted_words}  \n{once}{moving} for the requested bytes at {speed}  \n"
        f"on the chip: {entry.on_chip_words}: {format_kib(entry.on_chip)}, {verdict}"
    )
    explore_link("Watch it", entry.problem, entry.algorithm)
