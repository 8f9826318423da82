"""Bytes of one attention call in four meanings that are never mixed: modelled, requested (counted), compulsory, DRAM (hardware counters).

Requested bytes go to the caches (on Hopper some are merged before the L2), DRAM bytes are what those could not serve.
"""

from __future__ import annotations

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

KINDS = ("modelled", "requested", "compulsory", "DRAM")
SMALL_SHARE = 0.02
"""Operations under this share of the whole are drawn as one."""


@dataclass(frozen=True)
class Part:
    """Bytes of one kernel or operation."""

    name: str
    bytes: float


@dataclass(frozen=True)
class Number:
    """One of the four: its parts in the order they run, or why it is not there."""

    kind: str
    parts: tuple[Part, ...] = ()
    missing: str = ""
    source: str = ""
    """Where the number is from, in words."""

    @property
    def bytes(self) -> float | None:
        """Sum of the parts; None where there is none."""
        return sum(part.bytes for part in self.parts) if self.parts else None


def standard_numbers(
    problem: AttentionProblem, direction: str, operations: Iterable[Operation], counters: CounterRun | None
) -> tuple[Number, Number, Number, Number]:
    """The four numbers of naive attention; `operations` are those of `count_operations`."""
    if direction == "forward":
        modelled = tuple(Part(stage.name, stage.bytes_moved) for stage in standard_stages(problem))
    else:
        modelled = (Part("five kernels", standard_bytes(problem, "backward")),)
    counted = joined_small(Part(operation.name, operation.bytes_moved) for operation in operations)
    return (
        Number(
            "modelled",
            modelled,
            source="S and P cross the bus twice: Dao et al. 2022, algorithm 0 (backward: algorithm 3)",
        ),
        Number(
            "requested",
            counted,
            "" if counted else "not counted",
            "counted from the tensors that each torch operation reads and writes",
        ),
        _compulsory(problem, direction),
        dram_number(counters),
    )


def our_numbers(
    problem: AttentionProblem, direction: str, operations: Iterable[Operation], counters: CounterRun | None
) -> tuple[Number, Number, Number, Number]:
    """The four numbers of our kernels; `operations` are what they counted under TRACE with the tiles they run with."""
    operations = tuple(operations)
    counted = tuple(Part(operation.name, operation.bytes_moved) for operation in operations)
    return (
        Number(
            "modelled",
            our_modelled_parts(problem, direction, operations),
            source="every tile that the mask leaves, times its loads and stores",
        ),
        Number(
            "requested",
            counted,
            "" if counted else "not counted",
            "counted by the kernels from the masks of their own loads and stores",
        ),
        _compulsory(problem, direction),
        dram_number(counters),
    )


def dram_number(counters: CounterRun | None) -> Number:
    """What hardware counters read, kernel by kernel; without them, that nothing is recorded."""
    if counters is None:
        return Number("DRAM", missing="not recorded")
    parts = joined_small(Part(kernel.short_name, kernel.dram_bytes) for kernel in counters.kernels)
    return Number(
        "DRAM", parts, source=f"hardware counters of {counters.device.name}, the L2 empty before each kernel"
    )


def joined_small(parts: Iterable[Part]) -> tuple[Part, ...]:
    """The parts, with those under SMALL_SHARE put together at the end."""
    parts = tuple(parts)
    whole = sum(part.bytes for part in parts)
    large = tuple(part for part in parts if part.bytes >= SMALL_SHARE * whole)
    rest = sum(part.bytes for part in parts) - sum(part.bytes for part in large)
    return large + ((Part("the rest", rest),) if rest else ())


def _compulsory(problem: AttentionProblem, direction: str) -> Number:
    words = "every input read once, every result written once"
    return Number("compulsory", (Part("all", compulsory_bytes(problem, direction)),), source=words)


def our_modelled_parts(
    problem: AttentionProblem, direction: str, operations: tuple[Operation, ...]
) -> tuple[Part, ...]:
    """Requested bytes by formula, with the tiles that the counted kernels ran with, or the problem's own."""
    if direction == "forward":
        counted = next(iter(operations), None)
        name, sides = (counted.name, tile_sides(counted)) if counted else (FORWARD.name, None)
        return (Part(name, flash2_requested_bytes(problem, sides)),)
    tiles = {operation.name: tiles_of(operation, problem) for operation in operations}
    kernels = ALGORITHMS["backward"].kernels
    return tuple(
        Part(kernel.name, kernel.requested_bytes(tiles.get(kernel.name, problem))) for kernel in kernels
    )


def tile_sides(operation: Operation) -> tuple[int, int] | None:
    """(BLOCK_M, BLOCK_N) that an operation names ("64x128 tiles"), None where it names none."""
    sides = operation.shape.removesuffix(" tiles").split("x")
    return (
        (int(sides[0]), int(sides[1]))
        if len(sides) == 2 and all(side.isdigit() and int(side) for side in sides)
        else None
    )


def tiles_of(operation: Operation, problem: AttentionProblem) -> AttentionProblem:
    """The problem with the tiles that an operation names; as it is where it names none, or none that a problem may have."""
    sides = tile_sides(operation)
    return (
        problem.with_(block_m=sides[0], block_n=sides[1]) if sides and set(sides) <= set(BLOCKS) else problem
    )


def cache_share(requested: Number, dram: Number) -> float | None:
    """Share of the requested bytes that never reached DRAM; None where either is not there or DRAM moved more."""
    if not requested.bytes or dram.bytes is None or dram.bytes > requested.bytes:
        return None
    return 1 - dram.bytes / requested.bytes
