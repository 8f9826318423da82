"""tiles.py against the mask written out key by key."""

import itertools

import pytest

from kernels.problem import AttentionProblem, Band
from kernels.problem.tiles import (
    TileKind,
    count_tiles,
    last_tiles_first,
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
        seen = dict.fromkeys(TileKind, 0)
        for q_tile, kv_tile in itertools.product(range(problem.q_tiles), range(problem.kv_tiles)):
            rows = range(q_tile * block_m, min((q_tile + 1) * block_m, q_len))
            keys = range(kv_tile * block_n, (kv_tile + 1) * block_n)
            visible = [
                key < kv_len and -left <= key - (row + kv_len - q_len) <= right
                for row in rows
                for key in keys
            ]
            expected = (
                TileKind.FULL if all(visible) else TileKind.PARTIAL if any(visible) else TileKind.SKIPPED
            )
            kind = visited_tiles(problem, q_tile).kind(kv_tile)
            assert kind is expected, (problem, q_tile, kv_tile)
            assert (visiting_tiles(problem, kv_tile).kind(q_tile) is TileKind.SKIPPED) == (
                expected is TileKind.SKIPPED
            ), (problem, q_tile, kv_tile)
            in_keys = [
                seen
                for seen, key in zip(visible, [key for _ in rows for key in keys], strict=True)
                if key < kv_len
            ]
            # Keys and rows past the end need no mask in the backward pass.
            assert (visiting_tiles(problem, kv_tile).kind(q_tile) is TileKind.FULL) == all(in_keys), (
                problem,
                q_tile,
                kv_tile,
            )
            seen[kind] += 1
        counts = count_tiles(problem)
        assert counts.full == seen[TileKind.FULL]
        assert counts.partial == seen[TileKind.PARTIAL]
        assert counts.skipped == seen[TileKind.SKIPPED]


def test_visible_keys_is_bottom_right_aligned():
    causal = Band.of(3, 5, right=0)
    assert [causal.visible_keys(row) for row in range(3)] == [(0, 3), (0, 4), (0, 5)]
    short = Band.of(5, 3, right=0)
    assert [short.visible_keys(row)[1] for row in range(5)] == [0, 0, 1, 2, 3]


def test_a_bound_beyond_every_key_is_no_bound():
    assert Band.of(4, 6, 1000, 1000) == Band.of(4, 6)
    assert not Band.of(4, 6).masks
    assert Band.of(4, 6, left=0).bounds_left
    assert not Band.of(4, 6, left=0).bounds_right


def test_counts_cover_every_head():
    problem = AttentionProblem(batch=2, q_heads=3, kv_heads=1, mask="causal")
    assert count_tiles(problem).visited == 6 * count_tiles(problem.with_(batch=1, q_heads=1)).visited


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
