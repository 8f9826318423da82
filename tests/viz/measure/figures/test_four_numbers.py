"""Four bars of bytes, cut into kernels."""

from collections import Counter

import pytest

from kernels.measure.four_numbers import four_totals
from tests.kernels.documents import counter_run
from viz.measure.figures.four_numbers import four_numbers_figure
from viz.shared import theme


def test_the_four_bars_are_cut_into_kernels():
    run = counter_run("naive", counted=3e9, dram=2.7e9)
    totals = four_totals("naive", run.problem, "forward", run.counted, run)
    figure = four_numbers_figure("standard", totals, theme.LIGHT.standard, theme.LIGHT)
    sums, parts = Counter(), Counter(bar.y[0] for bar in figure.data)
    for bar in figure.data:
        sums[bar.y[0]] += bar.x[0]
    assert sums["DRAM<br>(recorded)"] == pytest.approx(2.7e9)
    assert sums["requested<br>(modelled)"] == pytest.approx(3e9)  # torch's operations count nothing
    assert parts["modelled"] == 3


def test_an_absent_bar_says_why_in_a_row_of_its_own():
    totals = four_totals("ours", counter_run().problem, "forward", (), None)
    figure = four_numbers_figure("ours", totals, theme.DARK.flash, theme.DARK)
    assert {"not counted", "not recorded"} <= {note.text for note in figure.layout.annotations}
    # a row without a bar would not be on the axis: its reason would lie over the next row
    assert {note.y for note in figure.layout.annotations} == {bar.y[0] for bar in figure.data}
