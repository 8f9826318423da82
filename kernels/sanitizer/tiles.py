"""Accesses as tiles: which tensor, which head, which rows, and the tile steps that they make."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kernels.problem import AttentionProblem
from kernels.problem.attention_problem import BLOCKS
from kernels.sanitizer.regions import Access, Launch, Product
from kernels.sanitizer.roles import Role

QUERY_SIDE, KEY_SIDE = ("Q", "O"), ("K", "V")


class Tile(NamedTuple):
    """One access as a rectangle: rows [first, end) of a head of Q, K, V or O; or some bytes of scratch."""

    access: Access
    tensor: str
    head: int = -1
    """batch * heads + head of the tensor; -1 for scratch."""
    first: int = 0
    end: int = 0
    several_heads: bool = False

    @property
    def program(self) -> int:
        return self.access.program


@dataclass
class Step:
    """What a program did between two changes of its tiles."""

    program: int
    query: tuple[int, int] | None
    """Head and query tile; None if it is about keys alone."""
    key: tuple[int, int] | None
    tiles: list[Tile] = field(default_factory=list)
    flops: int = 0


def tiles_of(launch: Launch, roles: dict[int, list[Role]], scratch: dict[int, str]) -> list[Tile | Product]:
    """The events of a launch with their tensors.

    `scratch` names memory without a role by its address; it grows.
    """
    events: list[Tile | Product] = []
    by_region: dict[int, list[int]] = {}
    for number, event in enumerate(launch.events):
        if isinstance(event, Access):
            by_region.setdefault(event.tag, []).append(number)
            events.append(Tile(event, ""))
        else:
            events.append(event)
    for tag, numbers in by_region.items():
        tensor, left = launch.regions[tag].tensor, np.array(numbers)
        address = tensor.untyped_storage().data_ptr()
        near = sorted(roles.get(address, ()), key=lambda role: abs(role.offset - tensor.storage_offset()))
        for role in near:
            left = _give_role(role, events, left)
        name = scratch.setdefault(address, _free_name(launch.regions[tag].name, scratch))
        for number in left:
            events[number] = events[number]._replace(tensor=name)
    return events


def _give_role(role: Role, events: list, numbers: np.ndarray) -> np.ndarray:
    """Replace the tiles of these numbers that the role has; the numbers of the others."""
    accesses = [events[number].access for number in numbers]
    corners = np.array([(access.first, access.last) for access in accesses]).reshape(-1, 2)
    (low, low_known), (high, high_known) = role.index(corners[:, 0]), role.index(corners[:, 1])
    own = low_known & high_known
    for i in np.flatnonzero(own):
        batch, head, first, _ = low[:, i].tolist()
        last_batch, last_head, last, _ = high[:, i].tolist()
        several = (batch, head) != (last_batch, last_head)
        rows = (batch * role.heads + head, min(first, last), max(first, last) + 1, several)
        events[numbers[i]] = Tile(events[numbers[i]].access, role.name, *rows)
    return numbers[~own]


def _free_name(name: str, scratch: dict[int, str]) -> str:
    taken = {*QUERY_SIDE, *KEY_SIDE, *scratch.values()}
    names = (name, *(f"{name} ({number})" for number in range(2, len(taken) + 3)))
    return next(free for free in names if free not in taken)


def block_of(tiles: list[Tile], side: tuple[str, ...]) -> tuple[int, str]:
    """Rows of a tile of Q and O, or of K and V, by the largest access; and what does not fit it, in words."""
    own = [tile for tile in tiles if tile.tensor in side and not tile.several_heads]
    if not own:
        return 64, ""
    largest = max(tile.end - tile.first for tile in own)
    block = next((block for block in BLOCKS if block >= largest), BLOCKS[-1])
    names = " and ".join(side)
    words = ""
    if largest > block:
        words = f"accesses to {names} have up to {largest} rows: they are drawn at their first {block}"
    elif any(tile.first % block for tile in own):
        words = f"tiles of {names} do not start at multiples of {block}: they are drawn where they start"
    return block, words


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
