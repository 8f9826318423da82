"""What is drawn of the tiles: their share of the attention, their key ranges, and what the mask leaves."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernels.problem import AttentionProblem
from kernels.problem.tiles import ListedTiles, TileKind, visited_tiles
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm

KIND_CODES = {TileKind.SKIPPED: 0, TileKind.PARTIAL: 1, TileKind.FULL: 2, TileKind.HIDDEN: 3}
"""As in model.js."""


def attention_share(trace: Trace, algorithm: Algorithm) -> np.ndarray:
    """float32 (steps, block_m): the part of each row's attention that a step's tile holds.

    The tiles of a row add up to 1. If the kernel has P at hand (backward, standard, row-wise) or the weights
    of a combine, these are its own numbers. Else they follow from the recorded online state.
    """
    share = np.full((trace.steps, trace.problem.block_m), np.nan, np.float32)
    if trace.row_max is not None and trace.row_sum is not None and trace.alpha is not None:
        share = _share_of_online_state(trace, algorithm, trace.row_max, trace.row_sum, trace.alpha)
    for known in (trace.row_share, trace.weight):
        if known is not None:
            share = np.where(np.isfinite(known), known, share)
    return np.clip(np.nan_to_num(share, nan=0.0, posinf=0.0, neginf=0.0), 0, 1)


def _share_of_online_state(
    trace: Trace, algorithm: Algorithm, row_max: np.ndarray, row_sum: np.ndarray, alpha: np.ndarray
) -> np.ndarray:
    """row_sum - alpha * (row_sum before), at the scale of its row max; NaN where that is not known."""
    share = np.full(row_sum.shape, np.nan, np.float32)
    online = np.flatnonzero(np.isfinite(row_sum).any(axis=1) & (trace.q_tile >= 0))
    if not len(online):
        return share
    place = trace.batch_head.astype(np.int64) * (trace.q_tile.max() + 1) + trace.q_tile
    tile = np.unique(place, return_inverse=True)[1]
    fresh_per_program = any(kernel.splits_keys for kernel in algorithm.kernels)
    state = trace.program if fresh_per_program else tile
    order = online[np.argsort(state[online], kind="stable")]
    fresh = np.diff(state[order], prepend=-1) != 0
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        at_start = 1 if trace.problem.sink_logit else 0  # a sink is a key that was seen, and has no value
        before = np.where(fresh[:, None], at_start, np.roll(row_sum[order], 1, axis=0))
        added = row_sum[order] - alpha[order] * before
        ends = order[np.append(np.flatnonzero(fresh)[1:], len(order)) - 1]
        log_sums = np.nan_to_num(row_max[ends] + np.log(row_sum[ends]), nan=-np.inf)
        lse = np.full((tile.max() + 1, row_max.shape[1]), -np.inf)
        np.logaddexp.at(lse, tile[ends], log_sums)
        share[order] = added * np.exp(row_max[order] - lse[tile[order]])
    return share


def row_mean(trace: Trace, algorithm: Algorithm, values: np.ndarray) -> np.ndarray:
    """(steps,): mean over the rows of each step's query tile that exist."""
    rows = rows_of_tiles(trace.problem, algorithm, np.maximum(trace.q_tile, 0))
    exists = np.arange(values.shape[1]) < rows[:, None]
    return np.nansum(np.where(exists, values, 0), axis=1) / rows


def rows_of_tiles(problem: AttentionProblem, algorithm: Algorithm, q_tiles: np.ndarray) -> np.ndarray:
    """int (query tiles,): rows that exist of each; the last tile may have fewer than the others."""
    return np.minimum(algorithm.rows(problem) - q_tiles * problem.block_m, problem.block_m)


@dataclass(frozen=True, eq=False)
class KeyParts:
    """The parts of a trace: their number, and indices of steps with the part of each.

    A kernel that splits the keys numbers its programs by their part first: of so many parts, program p of the
    combining kernel takes the results of the programs p * parts to (p + 1) * parts - 1, one in each of its
    steps.
    """

    count: int
    splits: np.ndarray
    split_part: np.ndarray
    combines: np.ndarray
    combined_part: np.ndarray


def parts_of(trace: Trace, algorithm: Algorithm) -> KeyParts | None:
    """The parts of the keys; None if no step combines any."""
    combines, splits = (
        np.flatnonzero(np.array([getattr(kernel, name) for kernel in algorithm.kernels])[trace.kernel])
        for name in ("combines_parts", "splits_keys")
    )
    if not len(combines):
        return None
    count = len(combines) // len(np.unique(trace.program[combines]))
    return KeyParts(count, splits, trace.program[splits] % count, combines, np.arange(len(combines)) % count)


def key_ranges(trace: Trace, algorithm: Algorithm) -> tuple[np.ndarray, np.ndarray]:
    """First and one past the last key tile of each step. A step that combines a part covers all its tiles."""
    first, end = trace.kv_tile.copy(), trace.kv_tile + 1
    if parts := parts_of(trace, algorithm):
        tiles = trace.kv_tile[parts.splits]
        for number in range(parts.count):
            own = tiles[parts.split_part == number]
            combines = parts.combines[parts.combined_part == number]
            first[combines], end[combines] = own.min(), own.max() + 1
    return first, end


def key_parts(trace: Trace, algorithm: Algorithm) -> list[int]:
    """First key tile of each part of the keys, and one past the last; empty if the keys are not split."""
    parts = parts_of(trace, algorithm)
    if parts is None:
        return []
    first, end = key_ranges(trace, algorithm)
    return [*np.unique(first[parts.combines]).tolist(), int(end[parts.combines].max())]


def tile_kinds(
    problem: AttentionProblem, algorithm: Algorithm, q_tiles: Sequence[int] | None = None
) -> np.ndarray:
    """uint8 (query tiles, key tiles): KIND_CODES. A tile without a visible key is hidden if it is visited."""
    if algorithm.packs_heads:
        return _kinds_of_packed_rows(problem, algorithm, q_tiles)
    unseen = TileKind.SKIPPED if algorithm.skips_tiles else TileKind.HIDDEN
    wanted = range(problem.q_tiles) if q_tiles is None else q_tiles
    kinds = np.full((len(wanted), problem.kv_tiles), KIND_CODES[unseen], np.uint8)
    for row, q_tile in enumerate(wanted):
        tiles = visited_tiles(problem, q_tile)
        if isinstance(tiles, ListedTiles):
            shown = [tiles.kind(tile) for tile in range(problem.kv_tiles)]
            kinds[row] = [KIND_CODES[unseen if kind is TileKind.SKIPPED else kind] for kind in shown]
            continue
        kinds[row, tiles.first : tiles.end] = KIND_CODES[TileKind.PARTIAL]
        kinds[row, tiles.first_full : tiles.end_full] = KIND_CODES[TileKind.FULL]
    return kinds


def _kinds_of_packed_rows(
    problem: AttentionProblem, algorithm: Algorithm, q_tiles: Sequence[int] | None
) -> np.ndarray:
    """Every tile of rows visits the key tiles that some query sees; the others are skipped."""
    rows = algorithm.rows(problem)
    first_keys = np.arange(problem.kv_tiles) * problem.block_n
    ends = np.minimum(first_keys + problem.block_n, problem.kv_len)
    visible = np.array([problem.band.visible_keys(query) for query in range(problem.q_len)])
    wanted = range(-(-rows // problem.block_m)) if q_tiles is None else q_tiles
    kinds = np.empty((len(wanted), problem.kv_tiles), np.uint8)
    for row, tile in enumerate(wanted):
        queries = np.arange(tile * problem.block_m, min((tile + 1) * problem.block_m, rows)) % problem.q_len
        from_key, to_key = visible[np.unique(queries)].T[:, :, None]
        whole = ((from_key <= first_keys) & (ends <= to_key)).all(axis=0)
        seen = ((from_key < ends) & (first_keys < to_key)).any(axis=0)
        kinds[row] = np.where(
            whole,
            KIND_CODES[TileKind.FULL],
            np.where(seen, KIND_CODES[TileKind.PARTIAL], KIND_CODES[TileKind.HIDDEN]),
        )
    seeing = visible[visible[:, 0] < visible[:, 1]]  # what several queries see is one range of keys
    first, end = (seeing[:, 0].min(), seeing[:, 1].max()) if len(seeing) else (0, 0)
    kinds[:, (ends <= first) | (first_keys >= end)] = KIND_CODES[TileKind.SKIPPED]
    return kinds
