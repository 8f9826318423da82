"""Charts of the softmax chapter."""

import numpy as np
import pytest

from viz.learn.softmax.figures import (
    overflow_figure,
    sum_figure,
    unscaled_figure,
    weights_figure,
)
from viz.learn.softmax.maths import exp_limits, online_steps, softmax, unscaled_shares
from viz.shared import theme

ROW = np.array([3.0, 2.0, 5.0, 1.0])
STEPS = online_steps(ROW, 2)


def words(figure):
    return {note.text for note in figure.layout.annotations}


def test_overflow_marks_what_leaves_the_format():
    figure = overflow_figure(np.array([1000.0, 999.0, 995.0]), exp_limits("float32"), "float32", theme.LIGHT)
    x, shifted = figure.data
    assert (set(x.marker.symbol), set(shifted.marker.symbol)) == ({"x"}, {"circle"})
    assert list(shifted.x) == [0, -1, -5]
    assert {"exp is ∞", "exp is 0"} <= words(figure)
    assert "88.7" in figure.layout.xaxis.title.text


def test_the_old_sum_shrinks_and_the_block_is_added():
    figure = sum_figure(STEPS, 1, theme.DARK)
    old, new = figure.data
    assert list(old.y) == pytest.approx([0, STEPS[1].alpha * STEPS[0].l])
    assert list(np.add(old.y, new.y)) == pytest.approx([step.l for step in STEPS])
    assert {"× 0.135", "<b>1.203</b>"} <= words(figure)
    for build in (sum_figure, unscaled_figure):
        first, last = build(STEPS, 0, theme.LIGHT), build(STEPS, 1, theme.LIGHT)
        assert len(first.data[0].y) == 1
        assert first.layout.yaxis.range == last.layout.yaxis.range  # axes stay while blocks are added
        assert first.layout.xaxis.range == last.layout.xaxis.range


def test_wrong_sums_and_weights_stand_beside_the_right_ones():
    right, wrong = unscaled_figure(STEPS, 1, theme.LIGHT).data
    assert list(right.y) == pytest.approx([1.3679, 1.2034], abs=1e-4)
    assert list(wrong.y) == pytest.approx([1.3679, 2.3862], abs=1e-4)
    right, wrong = weights_figure(ROW, softmax(ROW), unscaled_shares(STEPS), theme.LIGHT).data
    assert list(wrong.y) == pytest.approx([0.4191, 0.1542, 0.4191, 0.0077], abs=1e-4)
    assert wrong.marker.pattern.shape == "x"  # told apart without colour
