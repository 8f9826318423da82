"""Makes a trace of a user's own kernel from what it loads and stores: a Trace as our kernels write it."""

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from kernels.device.backend import device_info, utc_now
from kernels.device.runtime import BACKEND, INTERPRETED
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.tiles import TileKind, visited_tiles
from kernels.sanitizer.regions import Launch, Product
from kernels.sanitizer.roles import FollowCopies, Role
from kernels.sanitizer.source import Statement, source_lines, statement_of
from kernels.sanitizer.tiles import KEY_SIDE, QUERY_SIDE, Step, Tile, block_of, steps_of, tiles_of
from kernels.sanitizer.watch import watch_memory
from kernels.trace.observed import Observed, ObservedKernel, ObservedSite, Section, Stays
from kernels.trace.trace import LaunchInfo, Trace

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
MAX_EVENTS = 400_000
MOST_LAUNCHES = 100


@dataclass(frozen=True)
class _Launched:
    """One kernel, of one launch or of several that follow each other, and its steps."""

    name: str
    launch: Launch
    steps: list[Step]


def play(
    problem: AttentionProblem,
    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    attend: Attend,
    label: str,
) -> Trace:
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
    roles = follow.roles(dict(zip("QKV", inputs, strict=True)), output)
    return _trace(problem, launches, roles, output, label)


def _trace(
    problem: AttentionProblem,
    launches: list[Launch],
    roles: dict[int, list[Role]],
    output: torch.Tensor,
    label: str,
) -> Trace:
    scratch: dict[int, str] = {}
    events = [tiles_of(launch, roles, scratch) for launch in launches]
    tiles = [event for each in events for event in each if isinstance(event, Tile)]
    (block_m, words_m), (block_n, words_n) = block_of(tiles, QUERY_SIDE), block_of(tiles, KEY_SIDE)
    problem = problem.with_(block_m=block_m, block_n=block_n)
    launched = _merged(launches, events, problem)
    steps = [step for one in launched for step in one.steps]
    notes = [words for words in (words_m, words_n, _missing(tiles), _heads(tiles)) if words]
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
    missing = [name for name in "QKVO" if name not in {tile.tensor for tile in tiles}]
    if not missing:
        return ""
    return f"no access to {', '.join(missing)} was recognised: the kernel may work on a changed copy"


def _heads(tiles: list[Tile]) -> str:
    several = sum(tile.several_heads for tile in tiles)
    return f"{several:,} accesses reach over several heads: they are drawn at the first" if several else ""


def _skips_tiles(steps: list[Step], problem: AttentionProblem) -> bool:
    """Whether no visited tile is hidden by the mask."""
    visited = {(step.query[1], step.key[1]) for step in steps if step.query and step.key}
    return all(visited_tiles(problem, query).kind(key) is not TileKind.SKIPPED for query, key in visited)


def _kernel(one: _Launched, problem: AttentionProblem) -> ObservedKernel:
    with_tile = [step for step in one.steps if step.query and step.key]
    stays: Stays = "kv_tile" if _changes(one.steps, "query") > _changes(one.steps, "key") else "q_tile"
    sections = _sections(one.steps, stays) if with_tile else {}
    moved: dict[Statement, list[Tile]] = {}
    for step in one.steps:
        for tile in step.tiles:
            moved.setdefault(statement_of(tile.access.site), []).append(tile)
    names: dict[Statement, str] = {}
    for statement, tiles in moved.items():
        names[statement] = _site_name(statement, tiles, names)
    sites = tuple(
        ObservedSite(
            names[statement],
            sections.get(statement, "before"),
            tuple(dict.fromkeys(tile.tensor for tile in tiles if tile.access.reads)),
            tuple(dict.fromkeys(tile.tensor for tile in tiles if tile.access.writes)),
        )
        for statement, tiles in moved.items()
    )
    whole = 2 * problem.block_m * problem.block_n * problem.head_dim * max(len(with_tile), 1)
    products = round(sum(step.flops for step in with_tile) / whole)
    lines = source_lines(one.launch.site, names)
    return ObservedKernel(one.name, one.launch.site[0].rpartition("/")[2], sites, lines, stays, products)


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
    return f"{name} of {statement[0].rpartition('/')[2]}" if name in taken.values() else name


def _sections(steps: list[Step], stays: str) -> dict[Statement, Section]:
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
