"""Small matrices as HTML: every number, all digits on hovering, tints by magnitude, and looks of tiles."""

import re

import numpy as np
import pytest

from viz.learn.matrices import STRONGEST_TINT, Matrix, looks, matrices_html
from viz.shared.theme import DARK, LIGHT


def tints(html):
    return [int(tint) for tint in re.findall(r"--tint:(\d+)%", html)]


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_an_equation_shows_every_number_and_its_sign(colors):
    left = Matrix("P<sup>T</sup>", np.array([[1.5, -2.5], [0.001, 0.0]]), "query")
    html = matrices_html((left, "=", Matrix("D", np.array([3.0, 4.0]), "state")), colors)
    assert re.findall(r">([^<>]+)</td>", html) == ["1.50", "−2.50", "1e−3", "0.00", "3", "4"]
    for part in ('title="0.001"', ">=</span>", "(2 × 2)", "(2)", f"--tensor:{colors.query}"):
        assert part in html


def test_tints_follow_magnitudes_infinities_are_drawn_and_a_marked_row_is_framed():
    values = np.array([[1.0, -4.0, 0.0, np.inf, np.nan], [0.0] * 5])
    html = matrices_html((Matrix("A", values, "query", marked_row=1),), LIGHT)
    assert tints(html)[:5] == [STRONGEST_TINT // 4, STRONGEST_TINT, 0, 0, 0]
    assert re.findall(r">([^<>]+)</td>", html)[3:5] == ["∞", "NaN"]
    assert [row.count("<td") for row in re.findall(r'<tr class="marked">(.*?)</tr>', html)] == [5]


def test_cells_carry_look_tile_lines_and_number():
    of_cells = looks((2, 2), now=(slice(0, 1), slice(0, 2)), empty=(slice(1, 2), slice(1, 2)))
    matrix = Matrix("A", np.array([[1.5, -2.0], [np.inf, 1e-9]]), "query", of_cells, (1, 1))
    html = matrices_html([matrix], LIGHT)
    assert re.findall(r'<td class="([^"]*)"[^>]*>([^<]*)</td>', html) == [
        ("now", "1.50"),
        ("now left", "−2.00"),
        ("plain top", "∞"),
        ("empty top left", ""),
    ]
    assert tints(html) == []
