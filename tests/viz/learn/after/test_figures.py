"""Charts of the last chapter, on hand-built data."""

import numpy as np
import pytest

from viz.learn.after import figures
from viz.learn.after.maths import LateRescale, PrecisionResult, SplitRow, exp2_errors, tile_clocks
from viz.learn.after.page import HEAD_DIMS, limit_words
from viz.shared.theme import LIGHT

PARTS = (slice(0, 64), slice(64, 100))
SUMS, WEIGHTS = np.array([1, 3]), np.array([0.25, 0.75])
ROW = SplitRow(PARTS, np.zeros(2), SUMS, np.ones((2, 3)), np.log(SUMS), 1.4, WEIGHTS, 0.0, 0.0)
RESCALES = [LateRescale(0, 10, 20, 1.0, 0.0), LateRescale(8, 0, 20, 9.0, 0.0)]
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
    for head_dim in HEAD_DIMS:
        clocks = tile_clocks(head_dim)
        for words, each in zip(limit_words(clocks).split(", "), clocks.values(), strict=True):
            limit = {unit for unit, count in each.items() if count == max(each.values())}
            assert {unit for unit in each if unit in words} == limit


@pytest.mark.parametrize(
    ("figure", "drawn"),
    [
        (figures.parts_figure(ROW, LIGHT), [[0.25, 0.75]]),
        (figures.precision_figure(PRECISIONS, LIGHT), [[1e-4, 2e-2]]),
        (figures.rotation_figure(np.array([-9.0, 1.0]), np.array([3.0, -4.0]), LIGHT), [[9, 1], [3, 4]]),
        (figures.late_rescale_figure(RESCALES, 8, LIGHT), [[0.5, 0.0]]),
    ],
    ids=["weights of parts", "errors", "magnitudes", "shares of rescales"],
)
def test_bars_have_the_numbers_given(figure, drawn):
    values = [list(bar.x if bar.orientation == "h" else bar.y) for bar in figure.data]
    assert values == [pytest.approx(each) for each in drawn]


def test_bars_are_told_apart_without_colour_and_the_polynomial_lies_between_the_roundings():
    (errors,) = figures.precision_figure(PRECISIONS, LIGHT).data
    (shares,) = figures.late_rescale_figure(RESCALES, 8, LIGHT).data
    assert list(errors.marker.pattern.shape) == ["", "."]
    assert list(shares.marker.line.width) == [0, 3]
    assert len(figures.exp2_figure(*exp2_errors(3), 3, LIGHT).layout.shapes) == 4
