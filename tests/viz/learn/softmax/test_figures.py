"""Charts of the softmax chapter."""

import numpy as np
import pytest

from viz.learn.softmax.figures import sum_figure, unscaled_figure
from viz.learn.softmax.maths import online_steps
from viz.shared import theme

ROW = np.array([3.0, 2.0, 5.0, 1.0])
STEPS = online_steps(ROW, 2)


def words(figure):
    return {note.text for note in figure.layout.annotations}


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


def test_wrong_sums_stand_beside_the_right_ones():
    right, wrong = unscaled_figure(STEPS, 1, theme.LIGHT).data
    assert list(right.y) == pytest.approx([1.3679, 1.2034], abs=1e-4)
    assert list(wrong.y) == pytest.approx([1.3679, 2.3862], abs=1e-4)
    assert wrong.marker.pattern.shape == "x"  # told apart without colour
