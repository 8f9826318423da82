"""Accesses as tiles: which tensor, which head, which rows, and the tile steps that they make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kernels.problem import AttentionProblem
from kernels.problem.attention_problem import BLOCKS
from kernels.sanitizer.log import Access, LoggedLaunch, Product, Site
from kernels.sanitizer.roles import Role

QUERY_SIDE, KEY_SIDE = ("Q", "O"), ("K", "V")


@dataclass(frozen=True)
class Tile:
    """One access as a rectangle: rows [first, end) of a head of Q, K, V or O; or some bytes of scratch."""

    program: int
    tensor: str
    head: int
    """batch * heads + head of the tensor; -1 for scratch."""
    first: int
    end: int
    several_heads: bool
    reads: bool
    writes: bool
    bytes: int
    site: Site


@dataclass
class Step:
    """What a program did between two changes of its tiles."""

    program: int
    query: tuple[int, int] | None
    """Head and query tile; None if it is about keys alone."""
    key: tuple[int, int] | None
    tiles: list[Tile] = field(default_factory=list)
    flops: int = 0


def tiles_of(
    launch: LoggedLaunch, roles: dict[int, list[Role]], scratch: dict[int, str]
) -> list[Tile | Product]:
    """The events of a launch with their tensors.

    `scratch` names memory without a role by its address; it grows.
    """
    events: list[Tile | Product | None] = [
        event if isinstance(event, Product) else None for event in launch.events
    ]
    by_region: dict[int, list[int]] = {}
    for number, event in enumerate(launch.events):
        if isinstance(event, Access):
            by_region.setdefault(event.tag, []).append(number)
    for tag, numbers in by_region.items():
        tensor = launch.regions[tag].tensor
        address = tensor.untyped_storage().data_ptr()
        accesses = [event for number in numbers if isinstance(event := launch.events[number], Access)]
        left = np.arange(len(accesses))
        near = sorted(roles.get(address, ()), key=lambda role: abs(role.offset - tensor.storage_offset()))
        for role in near:
            own, tiles = _with_role(role, [accesses[i] for i in left])
            for i, tile in zip(left[own], tiles, strict=True):
                events[numbers[i]] = tile
            left = left[~own]
        name = scratch.setdefault(address, _free_name(launch.regions[tag].name, scratch))
        for i in left:
            one = accesses[i]
            rectangle = (one.program, name, -1, 0, 0, False, one.reads, one.writes, one.bytes, one.site)
            events[numbers[i]] = Tile(*rectangle)
    return [event for event in events if event is not None]


def _with_role(role: Role, accesses: list[Access]) -> tuple[np.ndarray, list[Tile]]:
    """Which accesses the role has, and those as tiles."""
    if not accesses:
        return np.zeros(0, bool), []
    corners = np.array([[access.first, access.last] for access in accesses])
    (low, low_known), (high, high_known) = role.index(corners[:, 0]), role.index(corners[:, 1])
    own = low_known & high_known
    heads = role.heads
    tiles = []
    for i in np.flatnonzero(own):
        access = accesses[i]
        batch, head, first, _ = low[:, i].tolist()
        last_batch, last_head, last, _ = high[:, i].tolist()
        several = (batch, head) != (last_batch, last_head)
        rows = (batch * heads + head, min(first, last), max(first, last) + 1, several)
        moved = (access.reads, access.writes, access.bytes, access.site)
        tiles.append(Tile(access.program, role.name, *rows, *moved))
    return own, tiles


def _free_name(name: str, scratch: dict[int, str]) -> str:
    taken = {*QUERY_SIDE, *KEY_SIDE, *scratch.values()}
    number = 2
    free = name
    while free in taken:
        free, number = f"{name} ({number})", number + 1
    return free


def block_of(tiles: list[Tile], side: tuple[str, ...]) -> tuple[int, str]:
    """Rows of a tile of Q and O, or of K and V, by the largest access; and what does not fit it, in words."""
    own = [tile for tile in tiles if tile.tensor in side and not tile.several_heads]
    if not own:
        return 64, ""
    largest = max(tile.end - tile.first for tile in own)
    block = next((block for block in BLOCKS if block >= largest), BLOCKS[-1])
    names = " and ".join(side)
    if largest > block:
        return block, f"accesses to {names} have up to {largest} rows: they are drawn at their first {block}"
    if any(tile.first % block for tile in own):
        return (
            block,
            f"tiles of {names} do not start at multiples of {block}: they are drawn where they start",
        )
    return block, ""


def steps_of(events: list[Tile | Product], problem: AttentionProblem) -> Iterator[Step]:
    """The tile steps of a launch: another query or key tile begins another step.

    A step keeps the other tile of the step before, unless that one changes too before the first product.
    """
    step: Step | None = None
    settled = not any(isinstance(event, Product) for event in events)
    kept = ""
    for event in events:
        if step is not None and step.program != event.program:
            yield step
            step = None
        if step is None:
            step, kept = Step(event.program, None, None), ""
        if isinstance(event, Product):
            step.flops += event.flops
            kept = ""
            continue
        side = "query" if event.tensor in QUERY_SIDE else "key" if event.tensor in KEY_SIDE else ""
        if side:
            block = problem.block_m if side == "query" else problem.block_n
            tile = (event.head, event.first // block)
            if getattr(step, side) not in (None, tile) and kept != side:
                yield step
                step = Step(event.program, step.query, step.key)
                kept = "" if settled else {"query": "key", "key": "query"}[side]
            elif kept == side:
                kept = ""
            setattr(step, side, tile)
        step.tiles.append(event)
    if step is not None:
        yield step
