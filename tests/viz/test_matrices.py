"""Small matrices as HTML: every number is there, hovering gives it in full, and the strongest tint is the largest magnitude."""

import re

import numpy as np
import pytest

from viz import theme
from viz.figures.matrices import LARGE_UP_TO, STRONGEST_TINT, Matrix, matrices_html
from viz.theme import DARK, LIGHT, format_entry


def tints(html):
    return [int(tint) for tint in re.findall(r"(\d+)%,transparent", html)]


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_an_equation_shows_every_number_and_its_sign(colors):
    left = Matrix("P<sup>T</sup>", np.array([[1.0, -2.5], [0.001, 0.0]]), colors.query)
    html = matrices_html((left, "=", Matrix("D", np.array([3.0, 4.0]), colors.state)), colors)
    assert re.findall(r">([^<>]+)</td>", html) == ["1.00", "-2.50", "1e-3", "0.00", "3.00", "4.00"]
    assert 'title="0.001"' in html
    assert ">=</span>" in html
    assert "(2 × 2)" in html
    assert "(2)" in html


def test_the_largest_magnitude_has_the_strongest_tint():
    assert tints(matrices_html((Matrix("A", np.array([[1.0, -4.0, 0.0]]), LIGHT.query),), LIGHT)) == [STRONGEST_TINT // 4 + 0, STRONGEST_TINT, 0]


def test_zeros_infinities_and_nan_are_drawn():
    html = matrices_html((Matrix("A", np.array([[0.0, np.inf, np.nan]]), LIGHT.query),), LIGHT)
    assert re.findall(r">([^<>]+)</td>", html) == ["0.00", "inf", "nan"]
    assert tints(html) == [0, 0, 0]


def test_a_marked_row_and_blocks_of_columns():
    html = matrices_html((Matrix("A", np.ones((2, 4)), LIGHT.query, marked_row=1, columns_in_block=2),), LIGHT)
    assert html.count(f"border-top:2px solid {LIGHT.now}") == 4
    assert html.count("border-right:3px") == 2


def test_wide_equations_are_smaller():
    def size(columns):
        return re.search(r"font-size:([\d.]+)rem", matrices_html((Matrix("A", np.ones((1, columns)), LIGHT.query),), LIGHT))[1]

    assert float(size(LARGE_UP_TO)) > float(size(LARGE_UP_TO + 1))


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0.00"), (-0.0049, "-5e-3"), (9.996, "10.0"), (-123.4, "-123.4"), (1234.0, "1e3"), (3e-20, "3e-20")]
)
def test_entries_are_short(value, text):
    assert format_entry(value) == text


def test_a_gradient_has_the_colour_of_its_tensor():
    assert theme.tensor_color("dV", LIGHT) == theme.tensor_color("V", LIGHT) == LIGHT.value
