"""Charts of the last chapter, on hand-built data."""

from viz.learn.after import figures
from viz.learn.after.maths import PrecisionResult, tile_clocks
from viz.shared.theme import LIGHT

PRECISIONS = [
    PrecisionResult("float16", 1e-4, 1e-3),
    PrecisionResult("e4m3, one scale per block", 2e-2, 1e-1),
]


def test_overlapped_clocks_end_at_the_unit_that_sets_the_limit(colors):
    bars = figures.clocks_figure(tile_clocks(64, 0.25), colors).data
    assert [bar.name for bar in bars] == list(figures.UNIT_LOOKS)
    overlapped = {bar.name: bar.x[1::2] for bar in bars}
    assert list(overlapped["tensor cores"]) == [2048, 1024, None]
    assert list(overlapped["exponentials"]) == [None, None, 768]


def test_bars_have_the_numbers_given_and_are_told_apart_without_colour():
    (errors,) = figures.precision_figure(PRECISIONS, LIGHT).data
    assert list(errors.x) == [1e-4, 2e-2]
    assert list(errors.marker.pattern.shape) == ["", "."]
