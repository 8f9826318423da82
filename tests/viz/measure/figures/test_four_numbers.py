"""Four bars of bytes, cut into kernels."""

import pytest

from kernels.measure.four_numbers import our_traffic, standard_traffic
from tests.kernels.documents import counter_run
from viz.measure.figures.four_numbers import four_numbers_figure
from viz.shared import theme


def test_the_four_bars_are_cut_into_kernels_and_an_absent_one_says_why():
    run = counter_run("naive", counted=3e9, dram=2.7e9)
    figure = four_numbers_figure(
        "standard",
        standard_traffic(run.problem, "forward", run.counted, run),
        theme.LIGHT.standard,
        theme.LIGHT,
    )
    sums = {}
    for bar in figure.data:
        sums[bar.y[0]] = sums.get(bar.y[0], 0) + bar.x[0]
    assert sums["DRAM<br>(recorded)"] == pytest.approx(2.7e9)
    assert sums["requested<br>(modelled)"] == pytest.approx(
        3e9
    )  # torch's operations count nothing themselves
    assert sum(bar.y[0] == "modelled" for bar in figure.data) == 3
    without = four_numbers_figure(
        "ours", our_traffic(run.problem, "forward", (), None), theme.DARK.flash, theme.DARK
    )
    assert {"not counted", "not recorded"} <= {note.text for note in without.layout.annotations}
    assert "requested<br>(counted)" in {note.y for note in without.layout.annotations}
    # a row without a bar would not be on the axis: its reason would lie over the next row
    assert {note.y for note in without.layout.annotations} == {bar.y[0] for bar in without.data}
