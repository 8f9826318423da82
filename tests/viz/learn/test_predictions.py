"""A prediction is right, or told by its slip; the slips are numbers that the slips really give."""

import numpy as np
import pytest

from viz.learn import predict as predictions
from viz.learn.predict import ABSOLUTE, RELATIVE, Quantity, judge, near, next_numerator, next_state
from viz.learn.softmax.maths import Update, numerators, online_steps, update

BEFORE, AFTER = online_steps(np.array([3.0, 2.0, 5.0, 1.0]), 2)
QUANTITIES = {each.name: each for each in next_state(update(BEFORE.m, BEFORE.l, AFTER.scores))}


def test_the_right_numbers_are_those_of_the_online_softmax():
    assert {name: each.value for name, each in QUANTITIES.items()} == {
        "m": AFTER.m,
        "α": AFTER.alpha,
        "l": AFTER.l,
    }
    assert all(judge(quantity, quantity.value) == (True, "") for quantity in QUANTITIES.values())


@pytest.mark.parametrize(
    ("name", "given", "slip"),
    [
        ("m", 3.0, "old m"),
        ("α", 1.0, "m stayed"),
        ("α", np.exp(2.0), "inverse"),
        ("α", -2.0, "is missing"),
        ("l", 1 + np.exp(-1) + 1 + np.exp(-4), predictions.NOT_RESCALED),
        ("l", 1 + np.exp(-1) + np.exp(2) + np.exp(-2), "old m"),
        ("l", 1 + np.exp(-4), predictions.DROPPED),
        ("l", np.exp(-2) * (1 + np.exp(-1)), predictions.NOT_ADDED),
        ("l", 77.0, ""),
    ],
)
def test_a_wrong_number_is_told_by_its_slip(name, given, slip):
    right, words = judge(QUANTITIES[name], float(given))
    assert not right
    assert slip in words
    assert bool(slip) == bool(words)


def test_y_is_rescaled_and_a_wrong_one_is_told_by_its_slip():
    values = np.array([1.0, 2.0, 3.0, 4.0])
    before, after = numerators((BEFORE, AFTER), values)
    added, kept = float(AFTER.terms @ values[2:]), AFTER.alpha * before
    quantity = next_numerator(before, AFTER, values[2:])
    assert judge(quantity, after) == (True, "")
    assert judge(quantity, before + added)[1] == predictions.NOT_RESCALED
    assert judge(quantity, added)[1] == predictions.DROPPED
    assert judge(quantity, kept)[1] == predictions.NOT_ADDED
    assert "by their values" in judge(quantity, kept + AFTER.added)[1]


def test_a_block_below_the_max_uses_the_old_max():
    m, alpha, l = next_state(update(5.0, 1.0, np.array([1.0, 0.0])))
    assert (m.value, alpha.value) == (5.0, 1.0)
    assert judge(m, 1.0) == (False, next(iter(m.slips)))
    assert judge(l, 1.0 + 1.0 + np.exp(-1))[1] == predictions.BLOCK_MAX
    m, _, _ = next_state(Update(np.array([1.0]), 0.0, 1.0, 1.001, 0.367, 1.368))
    assert m.value == 1.001  # what the kernel found, even if float64 gives a little less


def test_a_number_by_hand_may_be_rounded_and_no_more():
    assert near(0.135, np.exp(-2))
    assert near(2.66, 2.6591)
    assert near(1 + RELATIVE, 1.0)
    assert not near(1 + RELATIVE + 2 * ABSOLUTE, 1.0)
    assert not near(float("nan"), 1.0)
    assert judge(Quantity("x", float("inf")), float("inf")) == (True, "")


def test_a_weight_from_lse():
    lse = float(np.log(np.exp([0.5, -1.0, 2.0]).sum()))
    weight = predictions.weight_of_lse(0.5, lse)
    assert weight.value == pytest.approx(np.exp(0.5 - lse), rel=1e-14)
    assert "not subtracted" in judge(weight, float(np.exp(0.5)))[1]
    assert "inverse" in judge(weight, 1 / weight.value)[1]
