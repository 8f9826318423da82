"""Grids of numbers and the tiles at work on them."""

import re

import numpy as np
import pytest

from kernels.lessons.tiling import tiled_attention, tiled_product, whole_attention
from viz import theme
from viz.figures.number_grid import Grid, grids_html, looks
from viz.figures.tiles_at_work import attention_grids, product_grids, softmax_grids

A, B = np.arange(16.0).reshape(4, 4), np.eye(4)
RNG = np.random.default_rng(1)
QUERY, KEY, VALUE = RNG.normal(size=(4, 4)), RNG.normal(size=(4, 4)), RNG.normal(size=(4, 3))


def grids_of(items):
    return [item for item in items if isinstance(item, Grid)]


def test_cells_carry_look_tile_lines_and_number():
    grid = Grid(
        "A", np.array([[1.5, -2.0], [np.inf, 1e-9]]), "query", looks((2, 2), now=(slice(0, 1), slice(0, 2)), empty=(slice(1, 2), slice(1, 2))), (1, 1)
    )
    html = grids_html([grid, "×"], theme.LIGHT)
    cells = re.findall(r'<td class="([^"]*)">([^<]*)</td>', html)
    assert cells == [("now", "1.5"), ("now left", "−2"), ("plain top", "∞"), ("empty top left", "")]
    assert '<span class="sign">×</span>' in html
    assert theme.LIGHT.query in html


def test_a_product_step_shows_its_two_tiles_and_what_is_done():
    steps = tiled_product(A, B, 2)
    a, b, partial, c = grids_of(product_grids(A, B, 2, steps[3]))  # C_12 += A_12 B_22
    assert (a.looks[:2, 2:] == "now").all()
    assert (b.looks[2:, 2:] == "now").all()
    assert partial.values.shape == (2, 2)
    assert (c.looks[:2, :2] == "done").all()
    assert (c.looks[:2, 2:] == "now").all()
    assert (c.looks[2:] == "empty").all()
    assert np.array_equal(c.values[:2], (A @ B)[:2])


def test_only_one_tile_of_the_scores_exists():
    steps = tiled_attention(QUERY, KEY, VALUE, 2, "none")
    grids = {grid.title.split("<")[0]: grid for grid in grids_of(attention_grids(QUERY, KEY, VALUE, 2, steps[2]))}
    assert (grids["S"].looks == "now").sum() == 4
    assert (grids["S"].looks == "empty").sum() == 12
    assert np.allclose(grids["S"].values[2:, :2], (QUERY @ KEY.T / 2)[2:, :2])
    assert (grids["O"].looks[:2] == "done").all()
    assert np.array_equal(grids["K"].values, KEY.T)


@pytest.mark.parametrize(("mode", "state", "bad"), [("own", ["Σ"], 6), ("online", ["m", "α", "l"], 0)])
def test_wrong_rows_are_marked_once_they_are_finished(mode, state, bad):
    exact = whole_attention(QUERY, KEY, VALUE, "online")
    steps = tiled_attention(QUERY, KEY, VALUE, 2, mode)
    for step, marked in ((steps[0], 0), (steps[1], bad), (steps[-1], 2 * bad)):
        grids = {grid.title: grid for grid in grids_of(softmax_grids(VALUE, exact, 2, step, mode == "online"))}
        assert (grids["O"].looks == "bad").sum() == marked
        assert set(state) <= set(grids)
    assert np.array_equal(grids["O taken at once"].values, exact)
