"""Which key tiles does a query tile visit? This file answers that for bands, pattern.py for other masks.

The functions with upper-case arguments are plain integer arithmetic. The host calls them as they are. The
kernels run the same source: Triton compiles it for a GPU, the interpreter calls it directly. So the pages
cannot draw other tiles than the kernels visit. Their `band` is a `kernels.problem.band.Band`.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from kernels.problem.pattern import FULL, PARTIAL, SKIPPED, plan_of

if TYPE_CHECKING:
    from kernels.problem.attention_problem import AttentionProblem


def first_visited_tile(q_tile, band, BLOCK_M, BLOCK_N):
    """First key tile with a key that some row of the query tile sees."""
    return max(q_tile * BLOCK_M + band.kv_len - band.q_len - band.left, 0) // BLOCK_N


def end_visited_tile(q_tile, band, BLOCK_M, BLOCK_N):
    """One past the last key tile with a key that some row of the query tile sees."""
    last_row = min(q_tile * BLOCK_M + BLOCK_M, band.q_len) - 1
    end_key = min(max(last_row + band.kv_len - band.q_len + band.right + 1, 0), band.kv_len)
    return (end_key + BLOCK_N - 1) // BLOCK_N


def first_full_tile(q_tile, band, BLOCK_M, BLOCK_N):
    """First key tile with no key that the left bound hides from some row."""
    last_row = min(q_tile * BLOCK_M + BLOCK_M, band.q_len) - 1
    return (max(last_row + band.kv_len - band.q_len - band.left, 0) + BLOCK_N - 1) // BLOCK_N


def end_full_tile(q_tile, band, BLOCK_M, BLOCK_N):
    """One past the last key tile whose every key exists and is not hidden from any row by the right bound."""
    return min(max(q_tile * BLOCK_M + band.kv_len - band.q_len + band.right + 1, 0), band.kv_len) // BLOCK_N


def first_visiting_tile(kv_tile, band, BLOCK_M, BLOCK_N):
    """First query tile with a row that sees some key of the key tile."""
    return max(kv_tile * BLOCK_N - (band.kv_len - band.q_len) - band.right, 0) // BLOCK_M


def end_visiting_tile(kv_tile, band, BLOCK_M, BLOCK_N):
    """One past the last query tile with a row that sees some key of the key tile."""
    last_key = min(kv_tile * BLOCK_N + BLOCK_N, band.kv_len) - 1
    end_row = min(max(last_key - (band.kv_len - band.q_len) + band.left + 1, 0), band.q_len)
    return (end_row + BLOCK_M - 1) // BLOCK_M


def first_full_visiting_tile(kv_tile, band, BLOCK_M, BLOCK_N):
    """First query tile with no row from which the right bound hides a key of the key tile."""
    last_key = min(kv_tile * BLOCK_N + BLOCK_N, band.kv_len) - 1
    return (max(last_key - (band.kv_len - band.q_len) - band.right, 0) + BLOCK_M - 1) // BLOCK_M


def end_full_visiting_tile(kv_tile, band, BLOCK_M, BLOCK_N):
    """One past the last query tile with no row from which the left bound hides a key of the key tile.

    Rows past the end of the queries count as seeing every key: they are zero, and add nothing to a gradient.
    """
    end_row = max(kv_tile * BLOCK_N - (band.kv_len - band.q_len) + band.left + 1, 0)
    all_tiles = (band.q_len + BLOCK_M - 1) // BLOCK_M
    return min(max(end_row // BLOCK_M, end_row // band.q_len * all_tiles), all_tiles)


PROGRAMS_PER_SM = 1
"""Split-KV decoding starts one program per SM. That is enough to keep the memory busy, and every further part
of the keys would take time to combine."""


def splits_to_fill(programs: int, kv_tiles: int, sm_count: int) -> int:
    """Number of parts of the keys that lets all programs run at once, at most one part per key tile."""
    return min(max(PROGRAMS_PER_SM * sm_count // programs, 1), max(kv_tiles, 1))


def split_evenly(kv_tiles: int, splits: int) -> tuple[int, int]:
    """(number of parts, key tiles per part). The last part may be shorter. No key tiles make one part."""
    tiles_per_split = max(-(-kv_tiles // splits), 1)
    return max(-(-kv_tiles // tiles_per_split), 1), tiles_per_split


HEADS_IN_TURN = 16
"""Under a causal mask, this many heads take turns, each from its longest query tile to its shortest. All SMs
get about the same work, and the keys and values of these heads stay in the L2 cache."""


def heads_in_turn(heads: int, bounds_right: bool) -> int:
    """Number of heads that take turns in the launch order of the kernels that keep a query tile."""
    return min(heads, HEADS_IN_TURN if bounds_right else 1)


def last_tiles_first(program, heads_in_turn, q_tiles, heads):
    """(head, query tile) of a program: `heads_in_turn` heads at a time, from their last query tile down."""
    first_head = program // (heads_in_turn * q_tiles) * heads_in_turn
    members = min(heads - first_head, heads_in_turn)  # the last turn may be short
    position = program - first_head * q_tiles
    return first_head + position % members, q_tiles - 1 - position // members


def launch_order(problem: "AttentionProblem") -> list[int]:
    """Programs (head * q_tiles + query tile) in the order in which the GPU gets them.

    For a kernel that keeps a query tile and launches the longest programs first.
    """
    turn = heads_in_turn(problem.heads, problem.band.bounds_right or problem.mask_node is not None)
    programs = range(problem.heads * problem.q_tiles)
    order = (last_tiles_first(program, turn, problem.q_tiles, problem.heads) for program in programs)
    return [head * problem.q_tiles + q_tile for head, q_tile in order]


class TileKind(Enum):
    """What the mask leaves of one tile of scores."""

    FULL = "full"
    PARTIAL = "partial"
    SKIPPED = "skipped"
    """Nothing, and it is not visited."""
    HIDDEN = "hidden"
    """Nothing, and it is visited all the same, by an algorithm that skips no tile."""


@dataclass(frozen=True)
class VisitedTiles:
    """The tiles that one tile visits, or that visit it, as half-open ranges of indices.

    Tiles [first, end) are visited; of these, [first_full, end_full) need no mask.
    """

    first: int
    first_full: int
    end_full: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.first

    def kind(self, tile: int) -> TileKind:
        if not self.first <= tile < self.end:
            return TileKind.SKIPPED
        return TileKind.FULL if self.first_full <= tile < self.end_full else TileKind.PARTIAL


@dataclass(frozen=True)
class ListedTiles(VisitedTiles):
    """The tiles that a plan lists: the ranges lie around them, and may hold skipped tiles."""

    kinds: tuple[int, ...] = ()
    """Of each tile: SKIPPED, PARTIAL or FULL. If heads see different keys: PARTIAL."""

    @classmethod
    def of(cls, kinds: np.ndarray) -> "ListedTiles":
        """From uint8 (sets, tiles)."""
        own = np.where((kinds == kinds[0]).all(axis=0), kinds[0], PARTIAL)
        listed = np.flatnonzero(own)
        first, end = (int(listed[0]), int(listed[-1]) + 1) if len(listed) else (0, 0)
        return cls(first, end, end, end, tuple(own.tolist()))

    @property
    def count(self) -> int:
        return len(self.kinds) - self.kinds.count(SKIPPED)

    def kind(self, tile: int) -> TileKind:
        return (TileKind.SKIPPED, TileKind.PARTIAL, TileKind.FULL)[self.kinds[tile]]


def kinds_of_plan(problem: "AttentionProblem", blocks: tuple[int, int] | None = None) -> np.ndarray | None:
    """`Plan.kinds` of the problem's mask; None if the mask is a band."""
    if problem.pattern is None or problem.pattern.mask is None:
        return None
    return plan_of(problem.pattern, *(blocks or (problem.block_m, problem.block_n))).kinds


def visited_tiles(
    problem: "AttentionProblem", q_tile: int, blocks: tuple[int, int] | None = None
) -> VisitedTiles:
    """The key tiles that a query tile of any head visits; `blocks` replaces the problem's tile sizes."""
    if (kinds := kinds_of_plan(problem, blocks)) is not None:
        return ListedTiles.of(kinds[:, q_tile])
    band, sizes = problem.band, blocks or (problem.block_m, problem.block_n)
    first, end = first_visited_tile(q_tile, band, *sizes), end_visited_tile(q_tile, band, *sizes)
    first_full = first_full_tile(q_tile, band, *sizes)
    end_full = max(end_full_tile(q_tile, band, *sizes), first_full)
    return VisitedTiles(first, first_full, end_full, end)


def visiting_tiles(problem: "AttentionProblem", kv_tile: int) -> VisitedTiles:
    """The query tiles that visit key tile `kv_tile` in the backward pass."""
    band, sizes = problem.band, (problem.block_m, problem.block_n)
    first, end = first_visiting_tile(kv_tile, band, *sizes), end_visiting_tile(kv_tile, band, *sizes)
    first_full = first_full_visiting_tile(kv_tile, band, *sizes)
    end_full = max(end_full_visiting_tile(kv_tile, band, *sizes), first_full)
    return VisitedTiles(first, first_full, end_full, end)


@dataclass(frozen=True)
class TileCounts:
    """Tiles of the whole problem (all heads and batches) by what the mask leaves of them."""

    full: int
    partial: int
    skipped: int

    @property
    def visited(self) -> int:
        """Tiles that a kernel loads."""
        return self.full + self.partial

    @property
    def all(self) -> int:
        """Tiles of the whole matrix of scores."""
        return self.visited + self.skipped


def count_tiles(problem: "AttentionProblem") -> TileCounts:
    """Full, partial and skipped tiles over all heads; takes time linear in the number of query tiles."""
    if (kinds := kinds_of_plan(problem)) is not None:
        alike = problem.heads // len(kinds)
        return TileCounts(*(int((kinds == kind).sum()) * alike for kind in (FULL, PARTIAL, SKIPPED)))
    full = partial = 0
    for q_tile in range(problem.q_tiles):
        tiles = visited_tiles(problem, q_tile)
        full += tiles.end_full - tiles.first_full
        partial += tiles.count - (tiles.end_full - tiles.first_full)
    skipped = problem.q_tiles * problem.kv_tiles - full - partial
    return TileCounts(full * problem.heads, partial * problem.heads, skipped * problem.heads)


def streamed_keys(
    problem: "AttentionProblem", blocks: tuple[int, int] | None = None, q_tile: int | None = None
) -> int:
    """Keys that all query tiles of all heads load, or one of each. A key counts once per tile loading it."""
    block_m, block_n = blocks or (problem.block_m, problem.block_n)
    if (kinds := kinds_of_plan(problem, blocks)) is not None:
        visits = (kinds if q_tile is None else kinds[:, q_tile : q_tile + 1]) != SKIPPED
        keys = int((visits * _rows_of_tiles(problem.kv_len, block_n)).sum())
        return keys * (problem.heads // len(kinds))
    wanted = range(-(-problem.q_len // block_m)) if q_tile is None else (q_tile,)
    visited = (visited_tiles(problem, tile, (block_m, block_n)) for tile in wanted)
    per_head = sum(max(min(each.end * block_n, problem.kv_len) - each.first * block_n, 0) for each in visited)
    return per_head * problem.heads


def _rows_of_tiles(length: int, block: int) -> np.ndarray:
    return np.minimum(length - np.arange(0, length, block), block)


def streamed_queries(problem: "AttentionProblem") -> int:
    """Queries of all heads that all key tiles load. A query counts once per key tile that loads it."""
    if (kinds := kinds_of_plan(problem)) is not None:
        rows = _rows_of_tiles(problem.q_len, problem.block_m)[:, None]
        return int(((kinds != SKIPPED) * rows).sum()) * (problem.heads // len(kinds))
    block_m, visiting = problem.block_m, (visiting_tiles(problem, tile) for tile in range(problem.kv_tiles))
    per_head = sum(min(tiles.end * block_m, problem.q_len) - tiles.first * block_m for tiles in visiting)
    return per_head * problem.heads
