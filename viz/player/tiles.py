"""What is drawn of the tiles: their share of the attention, their key ranges, and what the mask leaves."""

from __future__ import annotations

import numpy as np

from kernels.problem.tiles import TileKind, visited_tiles
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm

KIND_CODES = {TileKind.SKIPPED: 0, TileKind.PARTIAL: 1, TileKind.FULL: 2}
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
    """A tile added row_sum - alpha * (row_sum before), at the scale of its row max."""
    online = np.flatnonzero(np.isfinite(row_sum).any(axis=1) & (trace.q_tile >= 0))
    tile = trace.batch_head.astype(np.int64) * (trace.q_tile.max() + 1) + trace.q_tile
    fresh_per_program = any(kernel.splits_keys for kernel in algorithm.kernels)
    state = trace.program if fresh_per_program else tile
    order = online[np.argsort(state[online], kind="stable")]
    fresh = np.diff(state[order], prepend=-1) != 0
    share = np.full(row_sum.shape, np.nan, np.float32)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        before = np.where(fresh[:, None], 0, np.roll(row_sum[order], 1, axis=0))
        added = row_sum[order] - alpha[order] * before
        ends = order[np.append(np.flatnonzero(fresh)[1:], len(order)) - 1]
        log_sums = np.nan_to_num(row_max[ends] + np.log(row_sum[ends]), nan=-np.inf)
        lse = np.full((tile.max() + 1, row_max.shape[1]), -np.inf)
        np.logaddexp.at(lse, tile[ends], log_sums)
        share[order] = added * np.exp(row_max[order] - lse[tile[order]])
    return share


def row_mean(trace: Trace, algorithm: Algorithm, values: np.ndarray) -> np.ndarray:
    """(steps,): mean over the rows of each step's query tile that exist."""
    block = trace.problem.block_m
    rows = np.minimum(algorithm.rows(trace.problem) - np.maximum(trace.q_tile, 0) * block, block)
    exists = np.arange(values.shape[1]) < rows[:, None]
    return np.nansum(np.where(exists, values, 0), axis=1) / rows


def key_ranges(trace: Trace, algorithm: Algorithm) -> tuple[np.ndarray, np.ndarray]:
    """First and one past the last key tile of each step. A step that combines a part covers all its tiles."""
    first, end = trace.kv_tile.copy(), trace.kv_tile + 1
    combines, splits = _combining_steps(trace, algorithm), _splitting_steps(trace, algorithm)
    if len(combines):
        programs = len(np.unique(trace.program[combines]))
        parts = len(combines) // programs
        part = np.arange(len(combines)) % parts
        tiles = trace.kv_tile[splits]
        for number in range(parts):
            own = tiles[trace.program[splits] % parts == number]
            first[combines[part == number]], end[combines[part == number]] = own.min(), own.max() + 1
    return first, end


def key_parts(trace: Trace, algorithm: Algorithm) -> list[int]:
    """First key tile of each part of the keys, and one past the last; empty if the keys are not split."""
    combines = _combining_steps(trace, algorithm)
    if not len(combines):
        return []
    first, end = key_ranges(trace, algorithm)
    return [*np.unique(first[combines]).tolist(), int(end[combines].max())]


def _combining_steps(trace: Trace, algorithm: Algorithm) -> np.ndarray:
    return np.flatnonzero(np.array([kernel.combines_parts for kernel in algorithm.kernels])[trace.kernel])


def _splitting_steps(trace: Trace, algorithm: Algorithm) -> np.ndarray:
    return np.flatnonzero(np.array([kernel.splits_keys for kernel in algorithm.kernels])[trace.kernel])


def tile_kinds(trace: Trace, algorithm: Algorithm) -> np.ndarray:
    """uint8 (query tiles * key tiles,): KIND_CODES. If heads are packed into a tile, of all its rows."""
    problem = trace.problem
    q_tiles = int(trace.q_tile.max()) + 1
    kinds = np.zeros((q_tiles, problem.kv_tiles), np.uint8)
    if algorithm.packs_heads:
        visited = np.unique(trace.kv_tile[trace.kv_tile >= 0])
        kinds[:, visited] = KIND_CODES[TileKind.FULL]
        return kinds.ravel()
    for q_tile in range(q_tiles):
        tiles = visited_tiles(problem, q_tile)
        kinds[q_tile, tiles.first : tiles.end] = KIND_CODES[TileKind.PARTIAL]
        kinds[q_tile, tiles.first_full : tiles.end_full] = KIND_CODES[TileKind.FULL]
    return kinds.ravel()
