"""Collects faults of accesses: those of one source line to one tensor become one finding."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kernels.sanitizer.finding import Finding
from kernels.sanitizer.regions import Launch, Region
from kernels.sanitizer.sites import current_site, line_of


@dataclass
class _Fault:
    """All faults of one kind, line and tensor in the launch that had the first of them."""

    kind: str
    site: tuple[str, int]
    launch: int
    first: str
    """What happened at the first element, in words."""
    ending: str
    elements: int = 0
    programs: set[int] = field(default_factory=set)


class Ledger:
    """Faults in the order in which they were first seen."""

    def __init__(self) -> None:
        self._faults: dict[tuple, _Fault] = {}

    def outside(self, launch: Launch, region: Region | None, addresses: np.ndarray, how: str) -> None:
        """Accesses outside of the memory of the tensor that they were meant for."""
        kind = "out-of-bounds read" if how == "read" else "out-of-bounds write"
        address = int(addresses[0])
        if region is None:
            where = f"{_verb(how)} address {address:#x}, which no tensor that it was given holds"
            self._add(kind, launch, "", where, "", len(addresses))
            return
        element, end = region.element(address), region.element(region.end)
        first = region.element(region.low)
        shape = f"shape {tuple(region.tensor.shape)}"
        if element >= end:
            bounds = f"its memory ends before element {end:,} ({shape})"
        else:
            bounds = f"its memory starts at element {first:,} ({shape})"
        self._add(
            kind,
            launch,
            region.name,
            f"{_verb(how)} element {element:,} of {region.name} ({region.argument})",
            bounds,
            len(addresses),
        )

    def unwritten(self, launch: Launch, region: Region, addresses: np.ndarray) -> None:
        """Reads of elements that nobody has written."""
        where = f"reads {_element(region, int(addresses[0]))}"
        ending = "nobody wrote it: neither this launch, nor one before it, nor torch"
        self._add("read of unwritten memory", launch, region.name, where, ending, len(addresses))

    def conflict(self, launch: Launch, region: Region, addresses: np.ndarray, other: int) -> None:
        """Writes to elements to which another program of the launch wrote something else."""
        nx, ny, _ = launch.grid
        rest, x = divmod(other, nx)
        rival = (x, rest % ny, rest // ny)
        where = f"writes {_element(region, int(addresses[0]))}"
        ending = f"program {rival} of the same launch wrote another value there, and nothing orders them"
        self._add("write conflict", launch, region.name, where, ending, len(addresses))

    def _add(self, kind: str, launch: Launch, name: str, where: str, ending: str, elements: int) -> None:
        site = current_site()
        key = (kind, site, launch.kernel, name)
        if key not in self._faults:
            first = f"program {launch.place} of {launch.kernel} {where}"
            if launch.in_reverse:
                first = f"if the programs run in reverse, {first}"
            self._faults[key] = _Fault(kind, site, launch.number, first, ending)
        fault = self._faults[key]
        if fault.launch == launch.number:
            fault.elements += elements
            fault.programs.add(launch.program)

    def findings(self) -> tuple[Finding, ...]:
        """One finding per kind, line and tensor."""
        return tuple(_finding(fault) for fault in self._faults.values())


def _finding(fault: _Fault) -> Finding:
    words = f"{fault.first}{f'; {fault.ending}' if fault.ending else ''}"
    if fault.elements > 1:
        programs = f"{len(fault.programs):,} program{'s' if len(fault.programs) > 1 else ''}"
        words += f". In all, {fault.elements:,} such elements, by {programs}"
    return Finding(fault.kind, words, *fault.site, line_of(*fault.site))


def _verb(how: str) -> str:
    return {"read": "reads", "write": "writes"}.get(how, "updates")


def _element(region: Region, address: int) -> str:
    index = region.index(address)
    at = f"{region.name}{list(index)}" if index else f"element {region.element(address):,} of {region.name}"
    return f"{at} ({region.argument})"
