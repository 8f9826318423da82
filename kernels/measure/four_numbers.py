"""Bytes of one attention call in four meanings that are never mixed.

Modelled bytes come from a formula. Requested bytes are what loads and stores ask the caches for (on Hopper
some requests are merged before the L2): our kernels count them; those of torch's operations are modelled
from the sizes of their tensors. Compulsory bytes are those of a kernel that reads every input once and writes
every result once: Q, K, V in and O and lse out; backward Q, K, V, O, dO and lse in and dQ, dK and dV out.
DRAM bytes come from hardware counters: they are what the caches could not serve.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.flash2.entry import FORWARD
from kernels.algorithms.flash2.entry import requested_bytes as flash2_requested_bytes
from kernels.algorithms.standard.traffic import standard_bytes, standard_stages
from kernels.measure.counters import CounterRun
from kernels.problem import BLOCKS, AttentionProblem
from kernels.traffic.modelled import compulsory_bytes
from kernels.traffic.operations import Operation

SMALL_SHARE = 0.02
"""Kernels with a smaller share of the total than this are drawn as one."""


Part = tuple[str, float]
"""A kernel or operation, and its bytes."""


@dataclass(frozen=True)
class TrafficTotal:
    """Bytes of a call in one meaning, kernel by kernel in the order they run."""

    kind: str
    """"modelled", "requested", "compulsory" or "DRAM"."""
    origin: str
    """"modelled", "counted" or "recorded": which of the page's words for where a number is from."""
    parts: tuple[Part, ...]
    source: str = ""
    """How the number was found, in words."""

    @property
    def bytes(self) -> float | None:
        """Sum of the parts; None if there are none."""
        return sum(moved for _, moved in self.parts) if self.parts else None

    @property
    def missing(self) -> str:
        return "no formula for the kernels that ran" if self.kind == "modelled" else f"not {self.origin}"


FourTotals = tuple[TrafficTotal, TrafficTotal, TrafficTotal, TrafficTotal]
"""Modelled, requested, compulsory, DRAM."""


def four_totals(run: CounterRun) -> FourTotals:
    """The four totals of a run of "naive" attention or of "ours".

    Nothing is modelled if the counters are of other kernels than those that have a formula.
    """
    problem, direction = run.problem, run.direction
    counted = tuple((operation.name, float(operation.bytes_moved)) for operation in run.counted)
    if run.peer == "naive":
        parts: tuple[Part, ...] = (("five kernels", standard_bytes(problem, "backward")),)
        if direction == "forward":
            parts = tuple((stage.name, stage.bytes_moved) for stage in standard_stages(problem))
        by_formula = "S and P are written and read back: Dao et al. 2022, algorithm 0 (backward: algorithm 3)"
        by_tensors = "the sizes of the tensors that each torch operation reads and writes"
        requested = TrafficTotal("requested", "modelled", join_small(counted), by_tensors)
    else:
        parts = our_modelled_parts(problem, direction, run.counted)
        ran = {kernel.short_name for kernel in run.kernels}
        if not counted and ran.isdisjoint(name for name, _ in parts):
            parts = ()
        by_formula = "loads and stores of a tile, times the tiles that the mask leaves"
        by_kernels = "by the kernels, from the masks of their own loads and stores"
        requested = TrafficTotal("requested", "counted", counted, by_kernels)
    least = compulsory_bytes(problem, direction, with_lse=run.peer != "naive")
    once = "every input read once, every result written once"
    dram = join_small((kernel.short_name, kernel.dram_bytes) for kernel in run.kernels)
    source = f"hardware counters of {run.device.name}, the L2 empty before each kernel"
    return (
        TrafficTotal("modelled", "modelled", parts, by_formula),
        requested,
        TrafficTotal("compulsory", "modelled", (("all", least),), once),
        TrafficTotal("DRAM", "recorded", dram, source),
    )


def join_small(parts: Iterable[Part]) -> tuple[Part, ...]:
    """The parts, with those under SMALL_SHARE joined into one at the end."""
    parts = tuple(parts)
    total = sum(moved for _, moved in parts)
    large = tuple((name, moved) for name, moved in parts if moved >= SMALL_SHARE * total)
    rest = total - sum(moved for _, moved in large)
    return large + ((("the rest", rest),) if rest else ())


def our_modelled_parts(
    problem: AttentionProblem, direction: str, operations: tuple[Operation, ...]
) -> tuple[Part, ...]:
    """Requested bytes by formula, for the tiles of the counted kernels, or the problem's own if none are."""
    sides = {operation.name: tile_sides(operation) for operation in operations}
    if direction == "forward":
        name = next(iter(sides), FORWARD.name)
        return ((name, flash2_requested_bytes(problem, sides.get(name))),)
    parts = []
    for kernel in ALGORITHMS["backward"].kernels:
        blocks = sides.get(kernel.name) or (0, 0)
        tiled = problem.with_(block_m=blocks[0], block_n=blocks[1]) if {*blocks} <= {*BLOCKS} else problem
        if kernel.requested_bytes is not None:
            parts.append((kernel.name, kernel.requested_bytes(tiled)))
    return tuple(parts)


def tile_sides(operation: Operation) -> tuple[int, int] | None:
    """(BLOCK_M, BLOCK_N) that an operation names ("64x128 tiles"); None if it names none."""
    sides = re.fullmatch(r"([1-9]\d{0,3})x([1-9]\d{0,3}) tiles", operation.shape, re.ASCII)
    return (int(sides[1]), int(sides[2])) if sides else None


def cache_share(requested: TrafficTotal, dram: TrafficTotal) -> float | None:
    """Share of the requested bytes that the caches served; None if a number is missing or DRAM moved more."""
    if not requested.bytes or dram.bytes is None or dram.bytes > requested.bytes:
        return None
    return 1 - dram.bytes / requested.bytes
