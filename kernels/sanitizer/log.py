"""Writes down each access of a kernel: a rectangle of a tensor by its corners, bytes and source line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kernels.sanitizer.regions import Launch, Region
from kernels.sanitizer.sites import current_site

Site = tuple[str, int]
"""File and line."""


class Access(NamedTuple):
    """One load, store or atomic of one program."""

    program: int
    tag: int
    """Number of the region in its launch."""
    writes: bool
    reads: bool
    first: int
    """Number of the first element, counted from the start of the storage."""
    last: int
    bytes: int
    site: Site


class Product(NamedTuple):
    """One matrix product of one program."""

    program: int
    flops: int


class LoggedLaunch:
    """One launch: its regions, and its accesses and products in the order in which they ran."""

    def __init__(self, launch: Launch, function: Callable) -> None:
        self.kernel = launch.kernel
        self.site: Site = (function.__code__.co_filename, function.__code__.co_firstlineno)
        self.regions = launch.regions
        self.events: list[Access | Product] = []


class AccessLog:
    """All launches while a watch is on."""

    def __init__(self) -> None:
        self.launches: list[LoggedLaunch] = []

    def begin(self, launch: Launch, function: Callable) -> None:
        """A launch begins."""
        self.launches.append(LoggedLaunch(launch, function))

    def access(
        self, launch: Launch, region: Region, pointers: np.ndarray, lanes: np.ndarray, itemsize: int, how: str
    ) -> None:
        """Write down an access inside the memory of a tensor. `lanes` are those that the mask leaves."""
        count = int(np.count_nonzero(lanes))
        if not count:
            return
        active = pointers if count == lanes.size else pointers[lanes]
        first = (int(active.min()) - region.low) // region.itemsize
        last = (int(active.max()) - region.low) // region.itemsize
        writes, reads = how != "read", how != "write"
        logged = self.launches[-1]
        site = current_site(logged.site[0])
        event = Access(launch.program, region.tag, writes, reads, first, last, count * itemsize, site)
        logged.events.append(event)

    def product(self, launch: Launch, left: Any, right: Any) -> None:
        """Write down the operations of a matrix product: two per element of the three sides."""
        flops = 2 * left.data.size * right.data.shape[-1]
        self.launches[-1].events.append(Product(launch.program, flops))
