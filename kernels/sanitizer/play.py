"""Makes a trace of a user's own kernel from what it loads and stores: a Trace as our kernels write it."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from kernels.device.backend import device_info, utc_now
from kernels.device.runtime import BACKEND, INTERPRETED
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.attention_problem import BLOCKS
from kernels.problem.tiles import TileKind, visited_tiles
from kernels.sanitizer.fresh import FillFresh
from kernels.sanitizer.regions import Access, Launch, Product
from kernels.sanitizer.source import Statement, source_lines, statement_of
from kernels.sanitizer.watch import watch_memory
from kernels.trace.algorithm import Phase, SourceText
from kernels.trace.observed import Observed, ObservedKernel
from kernels.trace.trace import LaunchInfo, Trace

_aten = torch.ops.aten
_COPIES = {_aten.clone.default, _aten._to_copy.default}


NAMES = ("Q", "K", "V", "O")
QUERY_SIDE, KEY_SIDE = ("Q", "O"), ("K", "V")


class Tile(NamedTuple):
    """One access as a rectangle: rows [first, end) of a head of Q, K, V or O; or some bytes of scratch."""

    access: Access
    tensor: str
    head: int = -1
    """batch * heads + head of the tensor; -1 for scratch."""
    first: int = 0
    end: int = 0

    @property
    def program(self) -> int:
        return self.access.program


class Roles:
    """Which element of Q, K, V or O each element of memory holds.

    That is a number: the element's place in its tensor, times 4, plus the tensor's in NAMES; -1 for none.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._sizes = [tensor.shape[2:] for tensor in tensors]
        self._numbers: dict[tuple[int, int], np.ndarray] = {}
        """By address and element size of the memory."""
        for role, tensor in enumerate(tensors):
            self._fill(tensor, len(NAMES) * np.arange(tensor.numel()).reshape(tensor.shape) + role)

    def hand_on(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """What the target holds is a copy of the source, which has its shape."""
        self._fill(target, self._numbers_of(source))

    def _fill(self, tensor: torch.Tensor, numbers: np.ndarray) -> None:
        own = self._numbers_of(tensor)
        np.copyto(own, numbers, where=own < 0)

    def _numbers_of(self, tensor: torch.Tensor) -> np.ndarray:
        """Those of a tensor's elements, in its shape: a view."""
        size, item = tensor.untyped_storage().nbytes(), tensor.element_size()
        whole = self._numbers.setdefault((_address(tensor), item), np.full(size // item, -1))
        strides = [stride * whole.itemsize for stride in tensor.stride()]
        return np.lib.stride_tricks.as_strided(whole[tensor.storage_offset() :], tensor.shape, strides)

    def tile_of(self, access: Access, tensor: torch.Tensor) -> Tile | None:
        """The access to a tensor, if both its corners lie in one head of Q, K, V or O."""
        numbers = self._numbers.get((_address(tensor), tensor.element_size()))
        if numbers is None or min(low := int(numbers[access.first]), high := int(numbers[access.last])) < 0:
            return None
        (place, role), (last_place, last_role) = divmod(low, len(NAMES)), divmod(high, len(NAMES))
        if role != last_role:
            return None
        length, head_dim = self._sizes[role]
        (head, row), (last_head, last) = (divmod(each // head_dim, length) for each in (place, last_place))
        if head != last_head:
            return None
        return Tile(access, NAMES[role], head, min(row, last), max(row, last) + 1)


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class FollowCopies(FillFresh):
    """Also remembers the copies that torch makes while the mode is on, and keeps their memory in use."""

    def __init__(self) -> None:
        super().__init__()
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        made = super().__torch_dispatch__(func, types, args, kwargs)
        if func in _COPIES:
            self._copies.append((args[0], made))
        elif func is _aten.copy_.default and args[0].shape == args[1].shape:
            self._copies.append((args[1], args[0]))
        return made

    def roles(self, *tensors: torch.Tensor) -> Roles:
        """The roles of Q, K, V and O. A copy of an input has its role; what O is copied from has O's."""
        roles = Roles(tensors)
        for source, target in self._copies:
            roles.hand_on(source, target)
        for source, target in reversed(self._copies):
            roles.hand_on(target, source)
        return roles


@dataclass
class Step:
    """What a program did between two changes of its tiles."""

    program: int
    query: tuple[int, int] | None
    """Head and query tile; None if it is about keys alone."""
    key: tuple[int, int] | None
    tiles: list[Tile] = field(default_factory=list)
    flops: int = 0


def tiles_of(launch: Launch, roles: Roles, scratch: dict[int, str]) -> list[Tile | Product]:
    """The events of a launch with their tensors.

    `scratch` names memory without a role by its address; it grows.
    """
    events: list[Tile | Product] = []
    for event in launch.events:
        if isinstance(event, Access):
            region = launch.regions[event.tag]
            tile = roles.tile_of(event, region.tensor)
            if tile is None:
                address = _address(region.tensor)
                if address not in scratch:
                    scratch[address] = _free_name(region.name, scratch)
                tile = Tile(event, scratch[address])
            events.append(tile)
        else:
            events.append(event)
    return events


def _free_name(name: str, scratch: dict[int, str]) -> str:
    taken = {*NAMES, *scratch.values()}
    names = (name, *(f"{name} ({number})" for number in range(2, len(taken) + 3)))
    return next(free for free in names if free not in taken)


def block_of(tiles: list[Tile], side: tuple[str, ...]) -> tuple[int, str]:
    """Rows of a tile of Q and O, or of K and V, by the largest access; and what does not fit it, in words."""
    own = [tile for tile in tiles if tile.tensor in side]
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


Attend = Callable[..., torch.Tensor]
MAX_EVENTS = 400_000
MOST_LAUNCHES = 100


@dataclass(frozen=True)
class _Launched:
    """One kernel, of one launch or of several that follow each other, and its steps."""

    name: str
    launch: Launch
    steps: list[Step]


def play(problem: AttentionProblem, inputs: Sequence[torch.Tensor], attend: Attend, label: str) -> Trace:
    """Run `attend` on Q, K and V in the interpreter, and make a trace of all Triton kernels that it launches.

    The trace's problem has the tiles that were seen. Raises InvalidProblem if there is nothing to play, and
    what `attend` raises.
    """
    if not INTERPRETED:
        compiled = "a compiled kernel cannot be watched"
        raise InvalidProblem("kernel", label, compiled, "Set TRITON_INTERPRET=1.")
    with watch_memory(logs=True) as watch, FollowCopies() as follow:
        output = attend(*inputs)
    launches = watch.logged
    events = sum(len(launch.events) for launch in launches)
    if not events:
        none = "it launched no Triton kernel; torch's operations are not played"
        raise InvalidProblem("kernel", label, none)
    if events > MAX_EVENTS or len(launches) > MOST_LAUNCHES:
        most = f"at most {MAX_EVENTS:,} accesses and {MOST_LAUNCHES} launches are played"
        raise InvalidProblem("kernel", label, most, "Choose a shorter sequence or fewer heads.")
    roles = follow.roles(*inputs, output)
    return _trace(problem, launches, roles, output, label)


def _trace(
    problem: AttentionProblem, launches: list[Launch], roles: Roles, output: torch.Tensor, label: str
) -> Trace:
    scratch: dict[int, str] = {}
    events = [tiles_of(launch, roles, scratch) for launch in launches]
    tiles = [event for each in events for event in each if isinstance(event, Tile)]
    (block_m, words_m), (block_n, words_n) = block_of(tiles, QUERY_SIDE), block_of(tiles, KEY_SIDE)
    problem = problem.with_(block_m=block_m, block_n=block_n)
    launched = _merged(launches, events, problem)
    steps = [step for one in launched for step in one.steps]
    notes = [words for words in (words_m, words_n, _missing(tiles)) if words]
    kernels = tuple(_kernel(one, problem) for one in launched)
    names = tuple(dict.fromkeys(tile.tensor for step in steps for tile in step.tiles))
    moved = np.zeros((2, len(steps), len(names)), np.int64)
    column = {name: number for number, name in enumerate(names)}
    for number, step in enumerate(steps):
        for tile in step.tiles:
            moved[0, number, column[tile.tensor]] += tile.access.bytes * tile.access.reads
            moved[1, number, column[tile.tensor]] += tile.access.bytes * tile.access.writes
    where = np.array([_where(step, problem) for step in steps], np.int32).reshape(-1, 3)
    counts = [len(one.steps) for one in launched]
    return Trace(
        problem=problem,
        algorithm="user",
        device=device_info(BACKEND),
        kernels=tuple(one.name for one in launched),
        launches=(LaunchInfo(0, 0),) * len(launched),
        recorded_at=utc_now(),
        tensors=names,
        kernel=np.repeat(np.arange(len(counts), dtype=np.int8), counts),
        program=np.array([step.program for step in steps], np.int32),
        batch_head=where[:, 0],
        q_tile=where[:, 1],
        kv_tile=where[:, 2],
        tensor_bytes_read=moved[0],
        tensor_bytes_written=moved[1],
        output=output.detach().float().cpu().numpy(),
        observed=Observed(label, kernels, _skips_tiles(steps, problem), tuple(notes)),
    )


def _merged(
    launches: list[Launch], events: list[list[Tile | Product]], problem: AttentionProblem
) -> list[_Launched]:
    """Launches of one kernel that follow each other become one, with further programs."""
    found: list[_Launched] = []
    offset = 0
    for launch, own in zip(launches, events, strict=True):
        if not own:
            continue
        same = bool(found) and found[-1].launch.site == launch.site
        offset = 1 + max(step.program for step in found[-1].steps) if same else 0
        steps = sorted(steps_of(own, problem), key=lambda step: step.program)
        for step in steps:
            step.program += offset
        if same:
            found[-1].steps.extend(steps)
            continue
        times = sum(one.launch.kernel == launch.kernel for one in found)
        found.append(_Launched(f"{launch.kernel} ({times + 1})" if times else launch.kernel, launch, steps))
    return found


def _where(step: Step, problem: AttentionProblem) -> tuple[int, int, int]:
    """Head, query tile and key tile of a step; -1 for a tile that it has not."""
    query, key = step.query, step.key
    head = query[0] if query else key[0] * problem.group_size if key else 0
    return head, query[1] if query else -1, key[1] if key else -1


def _missing(tiles: list[Tile]) -> str:
    """Which of Q, K, V and O no access was recognised as."""
    missing = [name for name in NAMES if name not in {tile.tensor for tile in tiles}]
    if not missing:
        return ""
    return f"no access to {', '.join(missing)} was recognised: the kernel may work on a changed copy"


def _skips_tiles(steps: list[Step], problem: AttentionProblem) -> bool:
    """Whether no visited tile is hidden by the mask."""
    visited = {(step.query[1], step.key[1]) for step in steps if step.query and step.key}
    return all(visited_tiles(problem, query).kind(key) is not TileKind.SKIPPED for query, key in visited)


def _kernel(one: _Launched, problem: AttentionProblem) -> ObservedKernel:
    with_tile = [step for step in one.steps if step.query and step.key]
    stays = "kv_tile" if _changes(one.steps, "query") > _changes(one.steps, "key") else "q_tile"
    sections = _sections(one.steps, stays) if with_tile else {}
    moved: dict[Statement, list[Tile]] = {}
    for step in one.steps:
        for tile in step.tiles:
            moved.setdefault(statement_of(tile.access.site), []).append(tile)
    names: dict[Statement, str] = {}
    for statement, tiles in moved.items():
        names[statement] = _site_name(statement, tiles, names)
    phases: dict[str, tuple[Phase, ...]] = {"before": (), "step": (), "after": ()}
    for statement, tiles in moved.items():
        section = sections.get(statement, "before")
        loads = tuple(dict.fromkeys(tile.tensor for tile in tiles if tile.access.reads))
        stores = tuple(dict.fromkeys(tile.tensor for tile in tiles if tile.access.writes))
        phases[section] += (Phase(names[statement], loads, stores=stores),)
    whole = 2 * problem.block_m * problem.block_n * problem.head_dim * max(len(with_tile), 1)
    products = round(sum(step.flops for step in with_tile) / whole)
    source = SourceText(Path(one.launch.site[0]).name, source_lines(one.launch.site, names))
    return ObservedKernel(one.name, source, **phases, stays=stays, products=products)


def _changes(steps: list[Step], side: str) -> int:
    """How often a program's tile of a side changes from one step to the next."""
    pairs = itertools.pairwise(steps)
    return sum(
        one.program == other.program and getattr(one, side) != getattr(other, side) for one, other in pairs
    )


def _site_name(statement: Statement, tiles: list[Tile], taken: dict[Statement, str]) -> str:
    verbs = {(True, False): "load", (False, True): "store", (True, True): "update"}
    moved = dict.fromkeys((verbs[tile.access.reads, tile.access.writes], tile.tensor) for tile in tiles)
    verb, _ = next(iter(moved))
    name = f"{verb} {', '.join(tensor for _, tensor in moved)}, line {statement[1]}"
    return f"{name} of {Path(statement[0]).name}" if name in taken.values() else name


def _sections(steps: list[Step], stays: str) -> dict[Statement, str]:
    """Which statements run in every round of a program's loop over tiles, and which before and after it.

    A turn of the outer loop is a run of steps of one program with the same tile that stays.
    """
    moving = QUERY_SIDE[:1] if stays == "kv_tile" else KEY_SIDE
    in_loop: set[Statement] = set()
    early: set[Statement] = set()
    seen: set[Statement] = set()
    side = "key" if stays == "kv_tile" else "query"
    for _, turn in itertools.groupby(steps, lambda step: (step.program, getattr(step, side))):
        order = [(statement_of(tile.access.site), tile.tensor) for step in turn for tile in step.tiles]
        counts = Counter(statement for statement, _ in order)
        loop = {statement for statement, tensor in order if counts[statement] > 1 or tensor in moving}
        in_loop |= loop
        seen |= set(counts)
        first = next((i for i, (statement, _) in enumerate(order) if statement in loop), len(order))
        early |= {statement for statement, _ in order[:first]}
    return {
        statement: "step" if statement in in_loop else "before" if statement in early else "after"
        for statement in seen
    }
