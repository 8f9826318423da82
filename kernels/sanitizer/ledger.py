"""Collects faults of accesses: those of one source line to one tensor become one finding."""

from dataclasses import dataclass, field

import numpy as np

from kernels.sanitizer.finding import Finding
from kernels.sanitizer.regions import Launch, Region
from kernels.sanitizer.source import current_site, line_of

VERBS = {"read": "reads", "write": "writes"}
"""Of the ways to access memory; the others update it."""


@dataclass
class _Fault:
    """All faults of one kind, line and tensor in the launch that had the first of them."""

    kind: str
    site: tuple[str, int]
    launch: int
    words: str
    """What happened at the first element."""
    elements: int = 0
    programs: set[int] = field(default_factory=set)


class Ledger:
    """Faults in the order in which they were first seen."""

    def __init__(self) -> None:
        self._faults: dict[tuple, _Fault] = {}

    def outside(self, launch: Launch, region: Region | None, addresses: np.ndarray, how: str) -> None:
        """Accesses outside of the memory of the tensor that they were meant for."""
        kind = "out-of-bounds read" if how == "read" else "out-of-bounds write"
        address, verb = int(addresses[0]), VERBS.get(how, "updates")
        if region is None:
            words = f"{verb} address {address:#x}, which no tensor that it was given holds"
        else:
            first, end = region.element(region.low), region.element(region.end)
            words = (
                f"{verb} element {region.element(address):,} of {region.name} ({region.argument}), whose "
                f"memory holds elements {first:,} to {end - 1:,} (shape {tuple(region.tensor.shape)})"
            )
        self._add(kind, launch, region, words, len(addresses))

    def unwritten(self, launch: Launch, region: Region, addresses: np.ndarray) -> None:
        """Reads of elements that nobody has written."""
        element = region.words_of(int(addresses[0]))
        words = f"reads {element}, which neither a launch nor torch has written"
        self._add("read of unwritten memory", launch, region, words, len(addresses))

    def conflict(self, launch: Launch, region: Region, addresses: np.ndarray, other: int) -> None:
        """Writes to elements to which another program of the launch wrote something else."""
        element = region.words_of(int(addresses[0]))
        by = f"program {launch.place_of(other)} of the same launch wrote another value there"
        words = f"writes {element}; {by}, and nothing orders them"
        self._add("write conflict", launch, region, words, len(addresses))

    def _add(self, kind: str, launch: Launch, region: Region | None, words: str, elements: int) -> None:
        site = current_site()
        key = (kind, site, launch.kernel, region and region.name)
        if key not in self._faults:
            words = f"program {launch.place_of(launch.program)} of {launch.kernel} {words}"
            if launch.in_reverse:
                words = f"if the programs run in reverse, {words}"
            self._faults[key] = _Fault(kind, site, launch.number, words)
        fault = self._faults[key]
        if fault.launch == launch.number:
            fault.elements += elements
            fault.programs.add(launch.program)

    def findings(self) -> tuple[Finding, ...]:
        """One finding per kind, line and tensor."""
        found = []
        for fault in self._faults.values():
            words = f"{fault.words}. Elements: {fault.elements:,}; programs: {len(fault.programs):,}"
            found.append(Finding(fault.kind, words, *fault.site, line_of(*fault.site)))
        return tuple(found)
