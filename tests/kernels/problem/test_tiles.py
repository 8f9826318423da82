"""tiles.py against the mask written out key by key."""

import itertools
from collections import Counter

import numpy as np
import pytest

from kernels.problem import AttentionProblem, Band, tiles
from kernels.problem.tiles import (
    HEADS_IN_TURN,
    PROGRAMS_PER_SM,
    TileCounts,
    TileKind,
    count_tiles,
    heads_in_turn,
    last_tiles_first,
    launch_order,
    split_evenly,
    splits_to_fill,
    streamed_keys,
    streamed_queries,
    visited_tiles,
    visiting_tiles,
)

SHAPES = [(1, 1), (1, 9), (9, 1), (16, 16), (17, 40), (40, 17), (64, 64), (33, 100)]
WINDOWS = {
    "full": (1000, 1000),
    "causal": (1000, 0),
    "window-8-3": (8, 3),
    "window-0-0": (0, 0),
    "window-20-0": (20, 0),
    "window-0-30": (0, 30),
}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(("q_len", "kv_len"), SHAPES, ids=lambda value: str(value))
def test_tile_kinds_match_the_mask_key_by_key(q_len, kv_len, window):
    (left, right), mask = WINDOWS[window], window.split("-")[0]
    for block_m, block_n in itertools.product((4, 16), (8, 16)):
        shape = {"q_len": q_len, "kv_len": kv_len, "window_left": left, "window_right": right}
        problem = AttentionProblem(**shape, mask=mask, block_m=block_m, block_n=block_n)
        distance = np.arange(kv_len) - (np.arange(q_len)[:, None] + kv_len - q_len)
        visible, counted = (-left <= distance) & (distance <= right), Counter()
        for q_tile, rows in enumerate(blocks_of(visible, block_m)):
            for kv_tile, tile in enumerate(blocks_of(rows.T, block_n)):
                is_whole = tile.all() and len(tile) == block_n
                expected = TileKind.FULL if is_whole else TileKind.PARTIAL if tile.any() else TileKind.SKIPPED
                assert visited_tiles(problem, q_tile).kind(kv_tile) is expected, (problem, q_tile, kv_tile)
                backward = visiting_tiles(problem, kv_tile).kind(q_tile)
                assert (backward is TileKind.SKIPPED) == (expected is TileKind.SKIPPED)
                assert (backward is TileKind.FULL) == tile.all()  # keys past the end need no mask there
                counted[expected] += 1
        kinds = (TileKind.FULL, TileKind.PARTIAL, TileKind.SKIPPED)
        assert count_tiles(problem) == TileCounts(*(counted[kind] for kind in kinds))
        of_heads = count_tiles(problem.with_(batch=2, q_heads=3))
        assert of_heads.visited == 6 * (counted[TileKind.FULL] + counted[TileKind.PARTIAL])
        assert of_heads.all == 6 * counted.total()


SMALL_LENGTHS = (1, 4, 5, 9, 11)
SMALL_BOUNDS = (0, 1, 3, 6, None)


def hidden(band):
    """(hidden by the left bound, hidden by the right bound): bool (q_len, kv_len) each."""
    diagonal = np.arange(band.q_len)[:, None] + band.kv_len - band.q_len
    keys = np.arange(band.kv_len)
    return keys < diagonal - band.left, keys > diagonal + band.right


def blocks_of(matrix, rows):
    """A matrix in blocks of so many rows; the last block may be shorter."""
    return [matrix[first : first + rows] for first in range(0, len(matrix), rows)]


def edges(seen, block):
    """(first, one past the last) of the tiles of so many rows in which something is seen; (0, 0) if none."""
    where = [index for index, part in enumerate(blocks_of(seen, block)) if part.any()]
    return (where[0], where[-1] + 1) if where else (0, 0)


def tiles_before(hides, block):
    """Number of tiles up to the last one with a hidden row: the first tile that is free of them."""
    return edges(hides, block)[1]


def tiles_until(hides, block):
    """Number of tiles before the first one with a hidden row."""
    return (*(part.any() for part in blocks_of(hides, block)), True).index(True)


@pytest.mark.parametrize("blocks", [(4, 8), (8, 4)], ids=str)
@pytest.mark.parametrize("q_len", SMALL_LENGTHS)
def test_the_bounds_of_a_tile_are_those_of_the_mask_and_never_outside_the_matrix(q_len, blocks):
    """The kernels use these bounds as they are. Dividing a negative number rounds otherwise on a GPU."""
    block_m, block_n = blocks
    for kv_len, left, right in itertools.product(SMALL_LENGTHS, SMALL_BOUNDS, SMALL_BOUNDS):
        band = Band.of(q_len, kv_len, left, right)
        by_left, by_right = hidden(band)
        visible = ~(by_left | by_right)
        parts = zip(*(blocks_of(matrix, block_m) for matrix in (visible, by_left, by_right)), strict=True)
        for q_tile, (seen, left_hides, right_hides) in enumerate(parts):
            where = (q_tile, band, block_m, block_n)
            visited = (tiles.first_visited_tile(*where), tiles.end_visited_tile(*where))
            assert visited == edges(seen.T, block_n), where
            assert tiles.first_full_tile(*where) == tiles_before(left_hides.T, block_n), where
            whole = min(tiles_until(right_hides.T, block_n), kv_len // block_n)
            assert tiles.end_full_tile(*where) == whole, where
        parts = zip(*(blocks_of(matrix.T, block_n) for matrix in (visible, by_left, by_right)), strict=True)
        for kv_tile, (seen, left_hides, right_hides) in enumerate(parts):
            where = (kv_tile, band, block_m, block_n)
            visiting = (tiles.first_visiting_tile(*where), tiles.end_visiting_tile(*where))
            assert visiting == edges(seen.T, block_m), where
            assert tiles.first_full_visiting_tile(*where) == tiles_before(right_hides.T, block_m), where
            assert tiles.end_full_visiting_tile(*where) == tiles_until(left_hides.T, block_m), where


def test_keys_and_queries_that_are_streamed_count_once_for_every_tile_that_loads_them():
    for mask, (q_len, kv_len) in itertools.product(("full", "causal", "window"), SHAPES):
        shape = {"q_len": q_len, "kv_len": kv_len, "window_left": 9, "window_right": 2}
        problem = AttentionProblem(**shape, mask=mask, block_m=4, block_n=8)
        seen = ~np.logical_or(*hidden(problem.band))
        loaded = [tile for rows in blocks_of(seen, 4) for tile in blocks_of(rows.T, 8) if tile.any()]
        assert streamed_keys(problem) == sum(tile.shape[0] for tile in loaded)
        assert streamed_queries(problem) == sum(tile.shape[1] for tile in loaded)


def test_the_keys_and_pairs_of_a_band_are_those_that_it_does_not_hide():
    """Bands of some queries alone among them: their right bound may be negative, and no query sees a key."""
    for q_len, kv_len in itertools.product((1, 2, 5, 9), repeat=2):
        for left, right in itertools.product((0, 1, 3, 7, None), repeat=2):
            whole = Band.of(q_len, kv_len, left, right)
            seen = ~np.logical_or(*hidden(whole))
            assert whole.masks or seen.all()
            parts = [(0, q_len), *((row, row + 1) for row in range(q_len)), (q_len // 2, q_len)]
            for first, end in parts:
                band, rows = whole.of_rows(first, end), seen[first:end]
                ranges = [band.visible_keys(row) for row in range(band.q_len)]
                assert [[*range(*keys)] for keys in ranges] == [np.flatnonzero(row).tolist() for row in rows]
                assert band.visible_pairs == rows.sum(), band
                assert band.keyless_rows == (~rows.any(axis=1)).sum(), band
    assert [Band.of(5, 3, right=0).visible_keys(row)[1] for row in range(5)] == [0, 0, 1, 2, 3]


def test_a_bound_beyond_every_key_is_no_bound():
    assert Band.of(4, 6, 1000, 1000) == Band.of(4, 6)
    assert not Band.of(4, 6).masks
    assert (Band.of(4, 6, left=0).bounds_left, Band.of(4, 6, left=0).bounds_right) == (True, False)
    assert (Band.of(4, 6, right=0).bounds_left, Band.of(4, 6, right=0).bounds_right) == (False, True)


def test_keys_are_split_into_as_many_parts_as_fill_the_device_and_none_is_empty():
    assert splits_to_fill(programs=7, kv_tiles=1024, sm_count=132) == PROGRAMS_PER_SM * 132 // 7
    assert splits_to_fill(programs=1000, kv_tiles=1024, sm_count=132) == 1
    assert splits_to_fill(programs=1, kv_tiles=5, sm_count=132) == 5
    assert splits_to_fill(programs=1, kv_tiles=0, sm_count=132) == 1
    assert split_evenly(10, 4) == (4, 3)  # 3, 3, 3 and 1
    assert split_evenly(9, 4) == (3, 3)  # a fourth part would be empty
    assert split_evenly(2, 4) == (2, 1)
    assert split_evenly(0, 4) == (1, 1)


def test_heads_take_turns_only_under_a_mask_that_shortens_some_programs():
    assert heads_in_turn(40, bounds_right=True) == HEADS_IN_TURN
    assert heads_in_turn(5, bounds_right=True) == 5
    assert heads_in_turn(5, bounds_right=False) == 1
    shape = {"q_len": 12, "kv_len": 12, "q_heads": 2, "kv_heads": 1, "block_m": 4, "block_n": 4}
    assert launch_order(AttentionProblem(**shape, mask="full")) == [2, 1, 0, 5, 4, 3]
    assert launch_order(AttentionProblem(**shape, mask="causal")) == [2, 5, 1, 4, 0, 3]


@pytest.mark.parametrize(("heads", "in_turn"), [(1, 1), (5, 1), (5, 2), (6, 3), (7, 16), (33, 16)])
def test_programs_cover_every_tile_once_long_ones_first_within_their_turn(heads, in_turn):
    q_tiles, in_turn = 4, min(heads, in_turn)
    order = [last_tiles_first(program, in_turn, q_tiles, heads) for program in range(heads * q_tiles)]
    assert sorted(order) == list(itertools.product(range(heads), range(q_tiles)))
    turns = [head // in_turn for head, _ in order]
    assert turns == sorted(turns)
    for turn in set(turns):
        tiles = [q_tile for (_, q_tile), of in zip(order, turns, strict=True) if of == turn]
        assert tiles == sorted(tiles, reverse=True)
