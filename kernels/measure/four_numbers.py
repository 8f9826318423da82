"""Bytes of one attention call in four meanings that are never mixed.

Modelled bytes come from a formula. Requested bytes are what loads and stores ask the caches for (on Hopper
some requests are merged before the L2): our kernels count them; those of torch's operations are modelled
from the sizes of their tensors. Compulsory bytes are those of a kernel that reads every input once and writes
every result once: Q, K, V in and O and lse out; backward Q, K, V, O, dO and lse in and dQ, dK and dV out.
DRAM bytes come from hardware counters: they are what the caches could not serve.
"""

from __future__ import annotations

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


@dataclass(frozen=True)
class KernelTraffic:
    """Bytes of one kernel or operation."""

    name: str
    bytes: float


@dataclass(frozen=True)
class TrafficTotal:
    """Bytes of a call in one meaning, kernel by kernel in the order they run."""

    kind: str
    """"modelled", "requested", "compulsory" or "DRAM"."""
    origin: str
    """"modelled", "counted" or "recorded": which of the page's words for where a number is from."""
    parts: tuple[KernelTraffic, ...]
    source: str = ""
    """How the number was found, in words."""

    @property
    def bytes(self) -> float | None:
        """Sum of the parts; None if there are none."""
        return sum(part.bytes for part in self.parts) if self.parts else None

    @property
    def missing(self) -> str:
        """Why there are no parts; "" if there are."""
        if self.parts:
            return ""
        return "no formula for the kernels that ran" if self.kind == "modelled" else f"not {self.origin}"


FourTotals = tuple[TrafficTotal, TrafficTotal, TrafficTotal, TrafficTotal]
"""Modelled, requested, compulsory, DRAM."""


def standard_traffic(
    problem: AttentionProblem, direction: str, operations: Iterable[Operation], counters: CounterRun | None
) -> FourTotals:
    """The four totals of naive attention; `operations` are those of `count_operations`."""
    if direction == "forward":
        modelled = tuple(KernelTraffic(stage.name, stage.bytes_moved) for stage in standard_stages(problem))
    else:
        modelled = (KernelTraffic("five kernels", standard_bytes(problem, "backward")),)
    by_formula = "S and P are written and read back: Dao et al. 2022, algorithm 0 (backward: algorithm 3)"
    by_tensors = "the sizes of the tensors that each torch operation reads and writes"
    return (
        TrafficTotal("modelled", "modelled", modelled, by_formula),
        TrafficTotal("requested", "modelled", join_small(_parts(operations)), by_tensors),
        _compulsory(problem, direction, with_lse=False),
        dram_traffic(counters),
    )


def our_traffic(
    problem: AttentionProblem, direction: str, operations: Iterable[Operation], counters: CounterRun | None
) -> FourTotals:
    """The four totals of our kernels; `operations` are what they counted under TRACE, with tuned tiles.

    Nothing is modelled if the counters are of other kernels than those that have a formula.
    """
    operations = tuple(operations)
    modelled = our_modelled_parts(problem, direction, operations)
    ran = {kernel.short_name for kernel in counters.kernels} if counters else set()
    if ran and not operations and ran.isdisjoint(part.name for part in modelled):
        modelled = ()
    by_formula = "loads and stores of a tile, times the tiles that the mask leaves"
    by_kernels = "by the kernels, from the masks of their own loads and stores"
    return (
        TrafficTotal("modelled", "modelled", modelled, by_formula),
        TrafficTotal("requested", "counted", _parts(operations), by_kernels),
        _compulsory(problem, direction, with_lse=True),
        dram_traffic(counters),
    )


def _parts(operations: Iterable[Operation]) -> tuple[KernelTraffic, ...]:
    return tuple(KernelTraffic(operation.name, operation.bytes_moved) for operation in operations)


def _compulsory(problem: AttentionProblem, direction: str, with_lse: bool) -> TrafficTotal:
    """`with_lse`: lse is among the results of a forward pass."""
    everything = KernelTraffic("all", compulsory_bytes(problem, direction, with_lse))
    source = "every input read once, every result written once"
    return TrafficTotal("compulsory", "modelled", (everything,), source)


def dram_traffic(counters: CounterRun | None) -> TrafficTotal:
    """DRAM bytes by hardware counters, kernel by kernel."""
    if counters is None:
        return TrafficTotal("DRAM", "recorded", ())
    parts = join_small(KernelTraffic(kernel.short_name, kernel.dram_bytes) for kernel in counters.kernels)
    source = f"hardware counters of {counters.device.name}, the L2 empty before each kernel"
    return TrafficTotal("DRAM", "recorded", parts, source)


def join_small(parts: Iterable[KernelTraffic]) -> tuple[KernelTraffic, ...]:
    """The parts, with those under SMALL_SHARE joined into one at the end."""
    parts = tuple(parts)
    total = sum(part.bytes for part in parts)
    large = tuple(part for part in parts if part.bytes >= SMALL_SHARE * total)
    rest = total - sum(part.bytes for part in large)
    return large + ((KernelTraffic("the rest", rest),) if rest else ())


def our_modelled_parts(
    problem: AttentionProblem, direction: str, operations: tuple[Operation, ...]
) -> tuple[KernelTraffic, ...]:
    """Requested bytes by formula, for the tiles of the counted kernels, or the problem's own if none are."""
    if direction == "forward":
        counted = next(iter(operations), None)
        name, sides = (counted.name, tile_sides(counted)) if counted else (FORWARD.name, None)
        return (KernelTraffic(name, flash2_requested_bytes(problem, sides)),)
    tiles = {operation.name: tiles_of(operation, problem) for operation in operations}
    return tuple(
        KernelTraffic(kernel.name, formula(tiles.get(kernel.name, problem)))
        for kernel in ALGORITHMS["backward"].kernels
        if (formula := kernel.requested_bytes) is not None
    )


def tile_sides(operation: Operation) -> tuple[int, int] | None:
    """(BLOCK_M, BLOCK_N) that an operation names ("64x128 tiles"); None if it names none."""
    sides = re.fullmatch(r"([1-9]\d{0,3})x([1-9]\d{0,3}) tiles", operation.shape, re.ASCII)
    return (int(sides[1]), int(sides[2])) if sides else None


def tiles_of(operation: Operation, problem: AttentionProblem) -> AttentionProblem:
    """The problem with the tiles that an operation names; unchanged if a problem does not accept them."""
    sides = tile_sides(operation)
    if sides is None or not set(sides) <= set(BLOCKS):
        return problem
    return problem.with_(block_m=sides[0], block_n=sides[1])


def cache_share(requested: TrafficTotal, dram: TrafficTotal) -> float | None:
    """Share of the requested bytes that the caches served; None if a number is missing or DRAM moved more."""
    if not requested.bytes or dram.bytes is None or dram.bytes > requested.bytes:
        return None
    return 1 - dram.bytes / requested.bytes
