"""Slips of the sources: each names a source that is cited, and its numbers are those of the printed lines."""

import math

import pytest

from kernels.lessons import slips
from kernels.references import REFERENCES


def test_the_row_worked_out_by_hand():
    first, second = (1 * 1 + 2 * math.exp(-1)), math.exp(-2)
    l_first, l_second = 1 + math.exp(-1), math.exp(-2) * (1 + math.exp(-1)) + 1 + math.exp(-4)
    added = 3 + 4 * math.exp(-4)
    assert slips.output_of_the_row() == pytest.approx((second * first + added) / l_second)
    assert slips.output_without_the_factor_l() == pytest.approx((first / l_first * second + added) / l_second)
    assert slips.output_with_the_factor_inverted() == pytest.approx((first / second + added) / l_second)
    assert f"{slips.output_of_the_row():.3f}" == "2.749"
    assert f"{slips.output_without_the_factor_l():.3f}" == "2.696"


def test_a_mask_after_softmax_does_not_add_up_to_one():
    right = (1 + 2 * math.exp(-1)) / (1 + math.exp(-1))
    assert slips.output_with_the_mask_on_the_scores() == pytest.approx(right)
    assert slips.output_with_the_mask_on_the_weights() < 0.5 * right


def test_every_slip_names_a_known_source_and_its_table_stays_whole():
    keys = [source.key for source in REFERENCES]
    for slip in slips.slips():
        assert any(slip.source.startswith(key) for key in keys)
        assert slip.printed != slip.right
        assert "|" not in "".join((slip.source, slip.printed, slip.right, slip.shows))
