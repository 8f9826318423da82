"""The tiles at work in small matrices: what is done, what never exists, what is wrong."""

import numpy as np
import pytest

from viz.learn.matrices import Matrix
from viz.learn.softmax.maths import attention
from viz.learn.tiling.figures import attention_matrices, softmax_matrices
from viz.learn.tiling.maths import tiled_attention

RNG = np.random.default_rng(1)
QUERY, KEY, VALUE = RNG.normal(size=(4, 4)), RNG.normal(size=(4, 4)), RNG.normal(size=(4, 3))


def matrices_of(items):
    return [item for item in items if isinstance(item, Matrix)]


def test_only_one_tile_of_the_scores_exists():
    steps = tiled_attention(QUERY, KEY, VALUE, 2, "none")
    drawn = {
        matrix.label.split("<")[0].partition(" ")[0]: matrix
        for matrix in matrices_of(attention_matrices(QUERY, KEY, VALUE, 2, steps[2]))
    }
    assert (drawn["S"].looks == "now").sum() == 4
    assert (drawn["S"].looks == "empty").sum() == 12
    assert np.allclose(drawn["S"].values[2:, :2], (QUERY @ KEY.T / 2)[2:, :2])
    assert (drawn["O"].looks[:2] == "done").all()
    assert np.array_equal(drawn["K"].values, KEY.T)


@pytest.mark.parametrize(("mode", "state", "bad"), [("own", ["Σ"], 6), ("online", ["m", "α", "l"], 0)])
def test_wrong_rows_are_marked_once_they_are_finished(mode, state, bad):
    exact = attention(QUERY, KEY, VALUE)
    steps = tiled_attention(QUERY, KEY, VALUE, 2, mode)
    for step, marked in ((steps[0], 0), (steps[1], bad), (steps[-1], 2 * bad)):
        drawn = {
            matrix.label: matrix
            for matrix in matrices_of(softmax_matrices(VALUE, exact, 2, step, mode == "online"))
        }
        assert (drawn["O"].looks == "bad").sum() == marked
        assert set(state) <= set(drawn)
    assert np.array_equal(drawn["O without tiles"].values, exact)
