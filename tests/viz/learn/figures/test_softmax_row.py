"""The row of scores and the passes over it, as HTML."""

import numpy as np

from kernels.lessons.softmax import all_ways, online_steps
from viz.learn.figures.softmax_row import passes_html, row_html
from viz.shared import theme

ROW = np.array([3.0, 2.0, 5.0, 1.0])


def test_the_row_shows_blocks_seen_at_work_and_waiting():
    html = row_html(
        np.array([3.0, 2, 5, 1, 0, 0]), online_steps(np.array([3.0, 2, 5, 1, 0, 0]), 2), 1, theme.LIGHT
    )
    assert [html.count(f'class="block {look}"') for look in ("seen", "now", "waiting")] == [1, 1, 1]
    assert html.count("<span>·</span>") == 2  # what has not been read has no exponential yet
    assert "<span>0.135</span>" in html


def test_passes_are_drawn_as_far_as_they_have_come():
    html = passes_html(all_ways(ROW, 2, np.arange(1.0, 5)), 2, theme.LIGHT)
    assert html.count('<i class="reading">') == 2  # three and two passes still read
    assert html.count(" blocks, 4 scores<") == 1
    assert html.count("o = ?") == 2
    assert "2 of 6 blocks read" in html
    assert passes_html(all_ways(ROW, 2, np.arange(1.0, 5)), 6, theme.LIGHT).count("o = 2.749") == 3
