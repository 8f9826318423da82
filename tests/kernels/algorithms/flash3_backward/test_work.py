"""Which query tiles a program of the sweep visits, and which of them with the mask, on the host."""

from types import SimpleNamespace

import pytest

from kernels.algorithms.flash3_backward import work
from kernels.algorithms.flash3_backward.shared import Fixed
from kernels.problem.tiles import TileKind, visiting_tiles
from tests.kernels.helpers import tiny

SHAPES = [(300, 300), (256, 256), (1, 700), (130, 64), (64, 700), (700, 130)]
MASKS = {
    "full": {},
    "causal": {},
    "window": {"window_left": 90, "window_right": 0},
    "narrow": {"window_left": 3, "window_right": 5},
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("lengths", SHAPES)
def test_the_spans_are_the_visiting_tiles_and_only_whole_ones_go_without_the_mask(lengths, mask, monkeypatch):
    """Calls the kernel's own `take_item` and `tiles_of_span`."""
    name = mask if mask in ("full", "causal") else "window"
    problem = tiny(*lengths, 64, 128, mask=name, head_dim=64, **MASKS[mask])
    band, kv_tiles = problem.band, problem.kv_tiles
    fixed = Fixed(band.bounds_left, band.bounds_right, problem.kv_len % 128 != 0, 64)
    for function in ("last_tiles_first", *(each for each in vars(work) if each.endswith("visiting_tile"))):
        monkeypatch.setattr(work, function, getattr(work, function).fn)
    heads = work.Heads(1, 1, 1, 1, 0)
    for program in range(kv_tiles):
        language = SimpleNamespace(
            cdiv=lambda a, b: -(-a // b),
            minimum=min,
            maximum=max,
            where=lambda condition, a, b: a if condition else b,
            program_id=lambda axis, program=program: program,
            num_programs=lambda axis: kv_tiles,
        )
        monkeypatch.setattr(work, "gl", language)
        item = work.take_item.fn(heads, band, fixed)
        spans = [range(*work.tiles_of_span.fn(item, span)) for span in range(3)]
        expected = visiting_tiles(problem, item.kv_tile)
        assert [tile for span in spans for tile in span] == [*range(expected.first, expected.end)]
        assert all(fixed.HAS_SPAN[number] for number, span in enumerate(spans) if span)
        is_cut = fixed.RAGGED and item.kv_tile == kv_tiles - 1
        whole = [tile for tile in range(expected.first, expected.end) if expected.kind(tile) is TileKind.FULL]
        assert [*spans[1]] == ([] if is_cut else whole)
