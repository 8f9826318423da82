"""Dividing at every tile against once at the end: the same output, and counts written out here."""

import numpy as np
import pytest

from kernels.lessons.division import KINDS, tiled_softmax
from kernels.lessons.tiling import UnfitMatrices, whole_attention

RNG = np.random.default_rng(1)
QUERY, KEY, VALUE = (RNG.standard_normal(shape) for shape in ((6, 4), (8, 4), (8, 3)))


@pytest.mark.parametrize("every_step", [True, False])
@pytest.mark.parametrize("tile", [1, 3, 8])
def test_both_give_attention(tile, every_step):
    run = tiled_softmax(QUERY, KEY, VALUE, tile, every_step)
    np.testing.assert_allclose(run.output, whole_attention(QUERY, KEY, VALUE, "online"), atol=1e-14)
    assert tuple(run.operations) == KINDS


def test_counts_of_whole_tiles():
    each, last = (tiled_softmax(QUERY, KEY, VALUE, 2, every_step).operations for every_step in (True, False))
    rows, kv_tiles, scores, features = 6, 4, 6 * 8, 3
    for counts in (each, last):
        assert counts["exponentials"] == scores + rows * kv_tiles
        assert counts["additions"] == scores + rows * kv_tiles * features
    assert each["multiplications"] == rows * kv_tiles * (2 + 2 * features)
    assert last["multiplications"] == rows * kv_tiles * (1 + features) + rows * features
    assert each["divisions"] == 2 * rows * kv_tiles
    assert last["divisions"] == rows


def test_with_one_key_tile_there_is_little_to_save():
    each, last = (tiled_softmax(QUERY, KEY, VALUE, 8, every_step) for every_step in (True, False))
    assert each.total - last.total == 2 * 6


def test_matrices_that_do_not_fit_are_refused():
    with pytest.raises(UnfitMatrices, match="K has 8 rows and V has 7"):
        tiled_softmax(QUERY, KEY, VALUE[:7], 2, every_step=True)
