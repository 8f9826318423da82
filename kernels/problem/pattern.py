"""Which keys a query sees if no band says it, what is done to its scores, and the plan of tiles that follows.

What FlexAttention calls mask_mod, score_mod and block mask.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kernels.problem.band import Band
from kernels.problem.expression import Node, bounds, evaluate
from kernels.problem.invalid import InvalidProblem

SKIPPED, PARTIAL, FULL = 0, 1, 2
CHUNK_PAIRS = 1 << 22
"""Pairs of a query and a key that are looked at in one go."""
MOST_PAIRS = 1 << 31
MOST_TILES = 1 << 25
"""Of all heads, if they differ."""


@dataclass(frozen=True)
class Pattern:
    """What one attention call asks beside its tensors, if that is more than a `Band`.

    Query i has the position i + kv_len - q_len among the keys; documents are numbered from 0 along them.
    """

    band: Band
    mask: Node | None = None
    """The condition under which a query sees a key; None if the band says it."""
    heads: tuple[int, int] = (1, 1)
    """Batch and query heads."""
    documents: tuple[int, ...] = ()
    """Lengths of the documents that lie one after the other in the keys."""
    softcap: float = 0
    """Scores s become softcap * tanh(s / softcap); 0 for none."""
    slopes: tuple[float, ...] = ()
    """ALiBi: slope of each query head; its score with a key loses slope * distance. () for none."""
    sinks: tuple[float, ...] = ()
    """A logit of each query head that takes part in the row sum, and has no value. () for none."""
    rows_after: int = 0
    """Queries after these that were cut off."""

    q_len = property(lambda self: self.band.q_len)
    kv_len = property(lambda self: self.band.kv_len)

    @property
    def first_position(self) -> int:
        return self.band.kv_len - self.band.q_len - self.rows_after

    @property
    def by_head(self) -> bool:
        """Whether heads or batches see different keys."""
        return self.mask is not None and not {"h", "b"}.isdisjoint(self.mask.names())

    @property
    def differs_by_head(self) -> bool:
        """Whether heads differ in their mask, their slopes or their sinks."""
        return bool(self.by_head or self.slopes or self.sinks)

    def of_rows(self, first: int, end: int) -> "Pattern":
        """That of queries [first, end) alone, as if there were no others."""
        after = self.rows_after + self.q_len - end
        return replace(self, band=self.band.of_rows(first, end), rows_after=after)

    def document_of(self) -> np.ndarray:
        """int32 (kv_len,): the document of each position. What follows the last length is one more."""
        ends = np.cumsum(self.documents, dtype=np.int64)
        return np.searchsorted(ends, np.arange(self.kv_len), side="right").astype(np.int32)

    def values(self, q: Any, k: Any, head: int = 0) -> dict[str, Any]:
        """Values of all names for these positions and a head (batch * q_heads + head)."""
        batch, h = divmod(head, self.heads[1])
        named = {"q": q, "k": k, "h": h, "b": batch}
        if self.mask and self.mask.asks_documents:
            documents = self.document_of()
            last = self.kv_len - 1
            named |= {"doc(q)": documents[np.clip(q, 0, last)], "doc(k)": documents[np.clip(k, 0, last)]}
        return named

    def visible(self, first_row: int = 0, rows: int | None = None, head: int = 0) -> np.ndarray:
        """bool (rows, kv_len): which keys the queries from `first_row` on see; by default all queries."""
        count = self.q_len - first_row if rows is None else rows
        queries, k = np.arange(first_row, first_row + count)[:, None], np.arange(self.kv_len)[None, :]
        if self.mask is None:
            diagonal = queries + self.kv_len - self.q_len
            return (k <= diagonal + self.band.right) & (k >= diagonal - self.band.left)
        q = queries + self.first_position
        return np.broadcast_to(evaluate(self.mask, self.values(q, k, head)), (count, self.kv_len)) != 0


Rule = Band | Pattern
"""Which keys a query sees, and what is done to its scores."""


class Plan(NamedTuple):
    """What a pattern leaves of each tile."""

    kinds: np.ndarray
    """uint8 (sets, query tiles, key tiles): SKIPPED, PARTIAL or FULL. One set, or one per head."""
    sums: tuple[np.ndarray, np.ndarray]
    """int64 (sets, queries, 3): number, sum and sum of squares of the keys that a query sees; and the same of
    the queries that see a key."""

    @property
    def pairs(self) -> np.ndarray:
        """int64 (sets,): pairs of a query and a key that it sees."""
        return self.sums[0][..., 0].sum(axis=1)

    def stretches_of(self, axis: int) -> np.ndarray:
        """int32 (sets, 2, queries): the keys [first, end) that a query sees; no set if some are not in a row.

        With `axis` 2, of the queries that see a key. Numbers are in a row if they have the least squares.
        """
        count, total, squares = np.moveaxis(self.sums[axis - 1], -1, 0)
        first = (total - count * (count - 1) // 2) // np.maximum(count, 1)
        ends = np.stack([first, first + count], axis=1)
        least = np.diff(ends * (ends - 1) * (2 * ends - 1) // 6, axis=1)[:, 0]
        # (The squares of so many were added up without rounding.)
        in_a_row = count.shape[1] < 1 << 18 and (squares == least).all()
        return (ends if in_a_row else ends[:0]).astype(np.int32)

    def tiles_of(self, axis: int) -> np.ndarray:
        """int32 (sets, tiles that stay, 3 + tiles that stream): the lists that kernels go through.

        Each holds where its full tiles begin, where they end, its length, and the tiles by `parts_of`.
        `axis` is 1 if query tiles stay, 2 if key tiles do.
        """
        kinds = self.kinds if axis == 1 else self.kinds.swapaxes(1, 2)
        parts = parts_of(kinds)
        order = np.argsort(parts, axis=2, kind="stable")
        ends = [(parts <= part).sum(axis=2) for part in range(3)]
        return np.concatenate([np.stack(ends, axis=2), order], axis=2).astype(np.int32)


def parts_of(kinds: np.ndarray) -> np.ndarray:
    """In which part of a kernel's loop each tile comes, by kinds (..., tiles), as under a band.

    0: partial tiles before the first full one, 1: full ones, 2: the other partial ones, 3: none.
    """
    full_so_far = np.logical_or.accumulate(kinds == FULL, axis=-1)
    has_full = full_so_far[..., -1:]
    partial = np.where(full_so_far | ~has_full, 2, 0)
    return np.select([kinds == FULL, kinds == PARTIAL], [1, partial], 3)


@functools.lru_cache(maxsize=16)
def plan_of(pattern: Pattern, block_m: int, block_n: int) -> Plan:
    """The plan of the pattern's mask for tiles of these sizes.

    A tile is full if every key in it exists and every query that exists sees it. Tiles that cannot be told by
    the bounds of their positions are looked at pair by pair.
    """
    assert pattern.mask is not None
    heads = range(pattern.heads[0] * pattern.heads[1] if pattern.by_head else 1)
    if -(-pattern.q_len // block_m) * -(-pattern.kv_len // block_n) * len(heads) > MOST_TILES:
        accepted = f"its plan would have more than {MOST_TILES:,} tiles"
        raise InvalidProblem("mask", "this mask", accepted, "Choose larger tiles or a shorter sequence.")
    parts = [_plan_of_head(pattern, pattern.mask, head, block_m, block_n) for head in heads]
    kinds, of_queries, of_keys = (np.stack(part) for part in zip(*parts, strict=True))
    return Plan(kinds, (of_queries, of_keys))


def _plan_of_head(
    pattern: Pattern, mask: Node, head: int, block_m: int, block_n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    q_first = np.arange(0, pattern.q_len, block_m)[:, None] + pattern.first_position
    k_first = np.arange(0, pattern.kv_len, block_n)[None, :]
    q_last = np.minimum(q_first + block_m, pattern.first_position + pattern.q_len) - 1
    k_last = np.minimum(k_first + block_n, pattern.kv_len) - 1
    low, high = pattern.values(q_first, k_first, head), pattern.values(q_last, k_last, head)
    least, most = bounds(mask, {name: (low[name], high[name]) for name in low})
    shape = (len(q_first), k_first.shape[1])
    kinds = np.broadcast_to(np.where(most == 0, SKIPPED, np.where(least == 1, FULL, PARTIAL)), shape)
    kinds = kinds.astype(np.uint8)
    sizes = (q_last - q_first + 1) * (k_last - k_first + 1)
    powers = [_powers(pattern.q_len, block_m), _powers(pattern.kv_len, block_n)]
    sums = [
        np.zeros_like(powers[axis]) + (full @ powers[1 - axis].sum(axis=1))[:, None]
        for axis, full in enumerate((kinds == FULL, (kinds == FULL).T))
    ]
    for places, seen in _looked_at(pattern, mask, head, np.argwhere(kinds == PARTIAL), block_m, block_n):
        counts, whole = seen.sum(axis=(1, 2)), sizes[tuple(places.T)]
        kinds[tuple(places.T)] = np.where(counts == 0, SKIPPED, np.where(counts == whole, FULL, PARTIAL))
        for axis, tiles in enumerate((seen, seen.swapaxes(1, 2))):
            np.add.at(sums[axis], places[:, axis], tiles @ powers[1 - axis][places[:, 1 - axis]])
    kinds[:, -1:][(kinds[:, -1:] == FULL) & bool(pattern.kv_len % block_n)] = PARTIAL
    of_queries, of_keys = (each.reshape(-1, 3).astype(np.int64) for each in sums)
    return kinds, of_queries[: pattern.q_len], of_keys[: pattern.kv_len]


def _powers(length: int, block: int) -> np.ndarray:
    """float64 (tiles, block, 3): 1, number and square of each row that exists."""
    number = np.arange(-(-length // block) * block, dtype=np.float64)[:, None]
    return (number ** np.arange(3) * (number < length)).reshape(-1, block, 3)


def _looked_at(
    pattern: Pattern, mask: Node, head: int, places: np.ndarray, block_m: int, block_n: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Some tiles after the other, with bool (tiles, block_m, block_n): the pairs that exist and are seen."""
    if len(places) * block_m * block_n > MOST_PAIRS:
        accepted = "its bounds tell too few tiles, and there are too many pairs to look at"
        raise InvalidProblem("expression", "the mask", accepted, "Choose a shorter sequence.")
    some = max(CHUNK_PAIRS // (block_m * block_n), 1)
    for first in range(0, len(places), some):
        chunk = places[first : first + some]
        rows = chunk[:, 0, None, None] * block_m + np.arange(block_m)[None, :, None]
        keys = chunk[:, 1, None, None] * block_n + np.arange(block_n)[None, None, :]
        seen = evaluate(mask, pattern.values(rows + pattern.first_position, keys, head))
        yield chunk, (rows < pattern.q_len) & (keys < pattern.kv_len) & (seen != 0)


SEEN_BLOCK = 128


@functools.lru_cache(maxsize=16)
def seen_once(pattern: Pattern, group_size: int) -> tuple[int, int]:
    """(queries that see a key, keys that a query sees), over all query heads and over all key heads.

    Query heads of a group share a key head, whose key counts once.
    """
    rows, keys = (each[..., 0] > 0 for each in plan_of(pattern, SEEN_BLOCK, SEEN_BLOCK).sums)
    if len(keys) == 1:
        heads = pattern.heads[0] * pattern.heads[1]
        return int(rows.sum()) * heads, int(keys.sum()) * heads // group_size
    groups = keys.reshape(-1, group_size, pattern.kv_len)
    return int(rows.sum()), int(groups.any(axis=1).sum())


def alibi_slopes(heads: int) -> tuple[float, ...]:
    """Slopes of so many heads: a geometric sequence from 2^(-8/n), n the power of two below.

    Press, Smith and Lewis 2022, with their rule for heads that are not a power of two.
    """
    whole = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * (i + 1) / whole) for i in range(whole)]
    return tuple(slopes + [2.0 ** (-4 * (2 * i + 1) / whole) for i in range(heads - whole)])


def sink_logits(heads: int, seed: int) -> tuple[float, ...]:
    """A sink logit per head, as a trained model has them: normal, standard deviation 2. From the seed."""
    drawn = np.random.default_rng((seed, 2)).normal(size=heads) * 2
    return tuple(float(np.float32(logit)) for logit in drawn)
