"""The softmax lesson: overflow, the online form against the whole row, the wrong update, counted passes."""

import math

import numpy as np
import pytest

from viz.learn.softmax.maths import (
    FORMATS,
    all_ways,
    largest_exponent,
    numerators,
    online_shares,
    online_steps,
    softmax,
    softmax_in,
    unscaled_shares,
)

ROW = np.array([3.0, 2.0, 5.0, 1.0])
"""Worked out by hand in "FlashAttention, step by step"."""
LARGE = np.array([1000.0, 999.0, 995.0])
ROWS = (ROW, LARGE, -LARGE, np.zeros(5), np.array([7.0]), np.random.default_rng(0).normal(0, 300, 40))


@pytest.mark.parametrize("number_format", FORMATS)
def test_large_scores_overflow_unless_the_max_is_subtracted(number_format):
    kind, high = FORMATS[number_format], largest_exponent(number_format)
    naive, stable = (softmax_in(LARGE, number_format, subtract) for subtract in (False, True))
    assert np.isnan(naive.shares).all()
    assert (naive.fails, stable.fails, stable.shares.dtype) == (True, False, kind)
    assert np.allclose(stable.shares.astype(float), softmax(LARGE), atol=2e-3)
    with np.errstate(all="ignore"):
        assert np.isinf(np.exp(kind(high * 1.002)))
        assert np.isfinite(np.exp(kind(high * 0.998)))


def test_a_sum_that_overflows_alone_is_a_failure():
    result = softmax_in(np.full(8, 11.0), "float16", False)  # exp(11) fits, eight of them do not
    assert np.isfinite(result.exponentials).all()
    assert result.fails


def test_the_worked_example_element_by_element():
    steps, e = online_steps(ROW, 1), math.exp
    assert [step.m for step in steps] == [3, 3, 5, 5]
    assert [step.alpha for step in steps] == pytest.approx([0, 1, e(-2), 1])
    assert [step.l for step in steps] == pytest.approx(
        [1, 1 + e(-1), (1 + e(-1)) * e(-2) + 1, e(-2) + e(-3) + 1 + e(-4)]
    )
    assert steps[2].l_unscaled == pytest.approx(1 + e(-1) + 1)  # the wrong update


@pytest.mark.parametrize("block", [1, 3, 64])
def test_any_row_in_any_blocks_gives_the_softmax_of_the_keys_so_far(block):
    for row in ROWS:
        steps, values = online_steps(row, block), np.arange(1.0, len(row) + 1)
        assert len(steps) == -(-len(row) // block)
        assert np.allclose(online_shares(row, steps), softmax(row), rtol=1e-12)
        assert np.allclose(np.cumsum([step.added for step in steps]), [step.l_unscaled for step in steps])
        for step, y in zip(steps, numerators(steps, values), strict=True):
            assert y / step.l == pytest.approx(softmax(row[: step.end]) @ values[: step.end])
        for run in all_ways(row, block, values).values():
            assert run.known[-1]["o"] == pytest.approx(softmax(row) @ values)


def test_without_rescale_weights_still_sum_to_one_and_are_wrong():
    weights = unscaled_shares(online_steps(ROW, 2))
    assert weights.sum() == pytest.approx(1)
    assert weights[0] == pytest.approx(weights[2])  # 3 and 5, each the max of its own block
    assert np.abs(weights - softmax(ROW)).max() > 0.4


def test_three_two_and_one_pass_read_what_they_say():
    ways = all_ways(ROW, 2, np.arange(1.0, 5))
    assert [run.elements_read for run in ways.values()] == [12, 8, 4]
    assert [len(run.known) for run in ways.values()] == [6, 4, 2]
    assert [known["l"] is None for known in ways["three passes"].known] == [True] * 2 + [False] * 4
    surrogate = ways["one pass"].known[0]["o"]
    assert surrogate == pytest.approx(softmax(ROW[:2]) @ [1, 2])  # right for what was read
