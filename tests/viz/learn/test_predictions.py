"""A prediction is right, or told by its slip; the slips are numbers that the slips really give."""

import numpy as np
import pytest

from viz.learn.online import Update, update
from viz.learn.predictions import (
    ABSOLUTE,
    RELATIVE,
    Quantity,
    judge,
    near,
    next_numerator,
    next_state,
    weight_of_lse,
)
from viz.learn.softmax.maths import numerators, online_steps

ROW = np.array([3.0, 2.0, 5.0, 1.0])


def test_the_right_numbers_are_those_of_the_online_softmax():
    before, after = online_steps(ROW, 2)
    quantities = next_state(update(before.m, before.l, ROW[2:]))
    assert [quantity.name for quantity in quantities] == ["m", "α", "l"]
    assert [quantity.value for quantity in quantities] == [after.m, after.alpha, after.l]
    assert all(judge(quantity, quantity.value) == (True, "") for quantity in quantities)


def test_a_wrong_number_is_told_by_its_slip():
    before = online_steps(ROW, 2)[0]
    quantities = {each.name: each for each in next_state(update(before.m, before.l, ROW[2:]))}
    for name, given, slip in (
        ("m", 3.0, "old m"),
        ("α", 1.0, "m stayed"),
        ("α", np.exp(2.0), "inverse"),
        ("α", -2.0, "exp of it is missing"),
        ("l", 1 + np.exp(-1) + 1 + np.exp(-4), "without being rescaled"),
        ("l", 1 + np.exp(-1) + np.exp(2) + np.exp(-2), "old m"),
        ("l", 1 + np.exp(-4), "dropped"),
        ("l", np.exp(-2) * (1 + np.exp(-1)), "not added"),
        ("l", 77.0, ""),
    ):
        right, words = judge(quantities[name], float(given))
        assert not right
        assert slip in words
        assert bool(slip) == bool(words)


def test_y_is_rescaled_and_a_wrong_one_is_told_by_its_slip():
    values, old = np.array([1.0, 2.0, 3.0, 4.0]), online_steps(ROW, 2)
    before, after = numerators(old, values)
    added, kept = float(old[1].terms @ values[2:]), old[1].alpha * before
    slips = {
        before + added: "without being rescaled",
        added: "dropped",
        kept: "not added",
        kept + old[1].added: "by their values",
    }
    quantity = next_numerator(before, old[1], values[2:])
    assert judge(quantity, after) == (True, "")
    assert all(slip in judge(quantity, given)[1] for given, slip in slips.items())


def test_a_block_below_the_max_uses_the_old_max():
    m, alpha, l = next_state(update(5.0, 1.0, np.array([1.0, 0.0])))
    assert (m.value, alpha.value) == (5.0, 1.0)
    assert judge(m, 1.0) == (False, next(iter(m.slips)))
    assert "max of this block" in judge(l, 1.0 + 1.0 + np.exp(-1))[1]


def test_what_the_kernel_found_is_right_even_if_float64_gives_a_little_less():
    m, _, _ = next_state(Update(np.array([1.0]), 0.0, 1.0, 1.001, 0.367, 1.368))
    assert m.value == 1.001


def test_a_number_by_hand_may_be_rounded_and_no_more():
    assert near(0.135, np.exp(-2))
    assert near(2.66, 2.6591)
    assert not near(2.5, 2.6591)
    assert near(1 + RELATIVE, 1.0)
    assert not near(1 + RELATIVE + 2 * ABSOLUTE, 1.0)
    assert not near(float("nan"), 1.0)
    assert judge(Quantity("x", float("inf")), float("inf")) == (True, "")


def test_a_weight_from_lse():
    scores = np.array([0.5, -1.0, 2.0])
    lse = float(np.log(np.exp(scores).sum()))
    weight = weight_of_lse(0.5, lse)
    assert weight.value == pytest.approx(np.exp(0.5) / np.exp(scores).sum(), rel=1e-14)
    assert "not subtracted" in judge(weight, float(np.exp(0.5)))[1]
    assert "inverse" in judge(weight, 1 / weight.value)[1]
