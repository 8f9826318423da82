"""The tiling lesson: products and attention tile by tile against the whole, with the reads counted."""

import numpy as np
import pytest

from viz.learn.softmax.maths import attention
from viz.learn.tiling.maths import UnfitMatrices, tiled_attention, tiled_product

RNG = np.random.default_rng(0)
A, B = RNG.integers(-3, 4, (4, 4)).astype(float), RNG.integers(-3, 4, (4, 4)).astype(float)
QUERY, KEY, VALUE = RNG.normal(size=(5, 3)), 3 * RNG.normal(size=(7, 3)), RNG.normal(size=(7, 2))


def test_four_by_four_in_two_by_two_tiles():
    steps = tiled_product(A, B, 2)
    assert [(step.i, step.j, step.k) for step in steps] == [
        (i, j, k) for i in range(2) for j in range(2) for k in range(2)
    ]
    assert np.array_equal(steps[1].result[:2, :2], A[:2, :2] @ B[:2, :2] + A[:2, 2:] @ B[2:, :2])
    assert np.array_equal(steps[1].result[2:], np.zeros((2, 4)))
    assert np.array_equal(steps[-1].result, A @ B)
    assert [step.elements_read for step in steps] == list(range(8, 65, 8))


@pytest.mark.parametrize("tile", [1, 3, 8])
def test_shapes_that_no_tile_divides(tile):
    assert np.allclose(tiled_product(QUERY, KEY.T, tile)[-1].result, QUERY @ KEY.T)
    exact = attention(QUERY, KEY, VALUE)
    for mode, right in (("none", QUERY @ KEY.T / np.sqrt(3) @ VALUE), ("online", exact)):
        steps = tiled_attention(QUERY, KEY, VALUE, tile, mode)
        assert len(steps) == -(-5 // tile) * -(-7 // tile)
        assert np.allclose(steps[-1].output, right, rtol=1e-12)


def test_each_tile_with_its_own_softmax_is_not_attention():
    steps = tiled_attention(QUERY, KEY, VALUE, 2, "own")
    assert np.allclose(steps[-1].l, 4)  # four key tiles, each with weights that sum to 1
    assert np.abs(steps[-1].output - attention(QUERY, KEY, VALUE)).max() > 0.1
    whole = tiled_attention(QUERY, KEY, VALUE, 8, "own")
    assert np.allclose(whole[-1].output, attention(QUERY, KEY, VALUE))


def test_the_state_of_a_row_after_each_tile():
    first, second, *_ = tiled_attention(QUERY, KEY, VALUE, 4, "online")
    scores = QUERY[:4] @ KEY.T / np.sqrt(3)
    assert np.allclose(first.m, scores[:, :4].max(axis=1))
    assert np.allclose(second.m, scores.max(axis=1))
    assert np.allclose(second.alpha, np.exp(first.m - second.m))
    assert np.allclose(second.l, np.exp(scores - second.m[:, None]).sum(axis=1))
    assert (first.last_of_row, second.last_of_row) == (False, True)


def test_matrices_that_do_not_fit_are_named():
    with pytest.raises(UnfitMatrices, match="Q has 3 columns and K has 2"):
        tiled_attention(QUERY, KEY[:, :2], VALUE, 2, "own")
    with pytest.raises(UnfitMatrices, match="K has 7 rows and V has 6"):
        tiled_attention(QUERY, KEY, VALUE[:6], 2, "none")
    with pytest.raises(UnfitMatrices, match="A has 4 columns and B has 3 rows"):
        tiled_product(A, B[:3], 2)
