"""Which key tiles does a query tile visit? This file alone answers that.

The functions are plain integer arithmetic. The host calls them as they are; the kernels run the very same source
(compiled by Triton on a GPU, called directly by the interpreter), so that what is drawn and what is run cannot differ.

A mask is a band. With `offset = kv_len - q_len` (bottom-right alignment), query i sees key j when
`-left <= j - (i + offset) <= right` and `0 <= j < kv_len`. Full: both bounds beyond every key. Causal: `right = 0`. Window: both bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kernels.problem.attention_problem import AttentionProblem


def first_visited_tile(q_tile, q_len, kv_len, left, BLOCK_M, BLOCK_N):
    """First key tile with a key that some row of the query tile sees."""
    return max(q_tile * BLOCK_M + kv_len - q_len - left, 0) // BLOCK_N


def end_visited_tile(q_tile, q_len, kv_len, right, BLOCK_M, BLOCK_N):
    """One past the last key tile with a key that some row of the query tile sees."""
    last_row = min(q_tile * BLOCK_M + BLOCK_M, q_len) - 1
    end_key = min(max(last_row + kv_len - q_len + right + 1, 0), kv_len)
    return (end_key + BLOCK_N - 1) // BLOCK_N


def first_full_tile(q_tile, q_len, kv_len, left, BLOCK_M, BLOCK_N):
    """First key tile whose every key is seen by every row, as far as the left bound goes."""
    last_row = min(q_tile * BLOCK_M + BLOCK_M, q_len) - 1
    return (max(last_row + kv_len - q_len - left, 0) + BLOCK_N - 1) // BLOCK_N


def end_full_tile(q_tile, q_len, kv_len, right, BLOCK_M, BLOCK_N):
    """One past the last key tile whose every key exists and is seen by every row, as far as the right bound goes."""
    return min(max(q_tile * BLOCK_M + kv_len - q_len + right + 1, 0), kv_len) // BLOCK_N


def first_visiting_tile(kv_tile, q_len, kv_len, right, BLOCK_M, BLOCK_N):
    """First query tile with a row that sees some key of the key tile."""
    return max(kv_tile * BLOCK_N - (kv_len - q_len) - right, 0) // BLOCK_M


def end_visiting_tile(kv_tile, q_len, kv_len, left, BLOCK_M, BLOCK_N):
    """One past the last query tile with a row that sees some key of the key tile."""
    last_key = min(kv_tile * BLOCK_N + BLOCK_N, kv_len) - 1
    end_row = min(max(last_key - (kv_len - q_len) + left + 1, 0), q_len)
    return (end_row + BLOCK_M - 1) // BLOCK_M


def first_full_visiting_tile(kv_tile, q_len, kv_len, right, BLOCK_M, BLOCK_N):
    """First query tile whose every row sees every key of the key tile, as far as the right bound goes."""
    last_key = min(kv_tile * BLOCK_N + BLOCK_N, kv_len) - 1
    return (max(last_key - (kv_len - q_len) - right, 0) + BLOCK_M - 1) // BLOCK_M


def end_full_visiting_tile(kv_tile, q_len, kv_len, left, BLOCK_M, BLOCK_N):
    """One past the last query tile whose every row sees every key of the key tile, as far as the left bound goes.

    Rows past the end of the queries count as seeing every key: they are zero, and add nothing to any gradient.
    """
    end_row = max(kv_tile * BLOCK_N - (kv_len - q_len) + left + 1, 0)
    all_tiles = (q_len + BLOCK_M - 1) // BLOCK_M
    return min(max(end_row // BLOCK_M, min(end_row // q_len, 1) * all_tiles), all_tiles)


PROGRAMS_PER_SM = 1
"""Programs that the rule for the number of splits gives an SM: its pipeline of loads keeps the memory busy, and more parts cost more to combine."""


def splits_to_fill(programs: int, kv_tiles: int, sm_count: int) -> int:
    """Into how many parts to split the keys, so that all programs run at once, one an SM; never more parts than key tiles."""
    return min(max(PROGRAMS_PER_SM * sm_count // programs, 1), max(kv_tiles, 1))


def split_evenly(kv_tiles: int, splits: int) -> tuple[int, int]:
    """(number of parts, key tiles of a part): parts of equal length, but for a shorter last one; none is empty unless there is no tile."""
    tiles_per_split = max(-(-kv_tiles // splits), 1)
    return max(-(-kv_tiles // tiles_per_split), 1), tiles_per_split


HEADS_IN_TURN = 16
"""Under a causal mask, so many heads take turns from their longest query tile to their shortest: even work, and K and V stay in L2."""


def heads_in_turn(heads: int, bound_right: bool) -> int:
    """How many heads take turns in the launch order of the kernels that keep a query tile."""
    return min(heads, HEADS_IN_TURN if bound_right else 1)


def last_tiles_first(program, heads_in_turn, q_tiles, heads):
    """(head, query tile) of a program: `heads_in_turn` heads at a time, from their last query tiles to their first."""
    first_head = program // (heads_in_turn * q_tiles) * heads_in_turn
    members = min(heads - first_head, heads_in_turn)  # the last turn may be short
    place = program - first_head * q_tiles
    return first_head + place % members, q_tiles - 1 - place // members


def band(problem: AttentionProblem) -> tuple[int, int]:
    """(left, right) of the problem's mask; a bound that never cuts is q_len + kv_len."""
    unbounded = problem.q_len + problem.kv_len
    if problem.mask == "window":
        return min(problem.window_left, unbounded), min(problem.window_right, unbounded)
    return unbounded, 0 if problem.mask == "causal" else unbounded


class TileKind(Enum):
    """What the mask leaves of one tile of scores."""

    FULL = "full"
    PARTIAL = "partial"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class VisitedTiles:
    """Key tiles of one query tile, as half-open ranges of tile indices: [first, end) is visited, [first_full, end_full) unmasked."""

    first: int
    first_full: int
    end_full: int
    end: int

    def kind(self, kv_tile: int) -> TileKind:
        """What the mask leaves of one tile of the row."""
        if not self.first <= kv_tile < self.end:
            return TileKind.SKIPPED
        return TileKind.FULL if self.first_full <= kv_tile < self.end_full else TileKind.PARTIAL


def launch_order(problem: AttentionProblem) -> list[int]:
    """Programs (head * q_tiles + query tile) of a kernel that keeps a query tile, in the order in which the GPU is given them."""
    heads, right = problem.batch * problem.q_heads, band(problem)[1]
    turn = heads_in_turn(heads, right < problem.q_len + problem.kv_len)
    order = (
        last_tiles_first(program, turn, problem.q_tiles, heads) for program in range(heads * problem.q_tiles)
    )
    return [head * problem.q_tiles + q_tile for head, q_tile in order]


def visited_tiles(
    problem: AttentionProblem, q_tile: int, blocks: tuple[int, int] | None = None
) -> VisitedTiles:
    """The key tiles that query tile `q_tile` (of any head) visits; `blocks` are other tile sizes than the problem's."""
    left, right = band(problem)
    shape = (q_tile, problem.q_len, problem.kv_len)
    blocks = blocks or (problem.block_m, problem.block_n)
    first = first_visited_tile(*shape, left, *blocks)
    end = max(end_visited_tile(*shape, right, *blocks), first)
    first_full = min(max(first_full_tile(*shape, left, *blocks), first), end)
    end_full = min(max(end_full_tile(*shape, right, *blocks), first_full), end)
    return VisitedTiles(first, first_full, end_full, end)


def visiting_tiles(problem: AttentionProblem, kv_tile: int) -> VisitedTiles:
    """The query tiles that visit key tile `kv_tile` in the backward pass, as ranges of query tile indices."""
    left, right = band(problem)
    shape = (kv_tile, problem.q_len, problem.kv_len)
    blocks = (problem.block_m, problem.block_n)
    first = first_visiting_tile(*shape, right, *blocks)
    end = max(end_visiting_tile(*shape, left, *blocks), first)
    first_full = min(max(first_full_visiting_tile(*shape, right, *blocks), first), end)
    end_full = min(max(end_full_visiting_tile(*shape, left, *blocks), first_full), end)
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


def count_tiles(problem: AttentionProblem) -> TileCounts:
    """Full, partial and skipped tiles over all heads; takes time linear in the number of query tiles."""
    full = partial = 0
    for q_tile in range(problem.q_tiles):
        tiles = visited_tiles(problem, q_tile)
        full += tiles.end_full - tiles.first_full
        partial += tiles.end - tiles.first - (tiles.end_full - tiles.first_full)
    heads = problem.batch * problem.q_heads
    return TileCounts(
        full * heads, partial * heads, (problem.q_tiles * problem.kv_tiles - full - partial) * heads
    )


def visible_keys(problem: AttentionProblem, row: int) -> tuple[int, int]:
    """Half-open range of the keys that query row `row` sees; empty (first == end) for a row without a key."""
    left, right = band(problem)
    diagonal = row + problem.kv_len - problem.q_len
    first = min(max(diagonal - left, 0), problem.kv_len)
    return first, max(min(diagonal + right + 1, problem.kv_len), first)
