"""Bytes in four meanings, the roofline, and all peers at one shape, as figures."""

from collections import Counter

import pytest

from kernels.measure.four_numbers import four_totals
from kernels.measure.roofline import counter_points, roofs
from kernels.measure.series import peer_curves
from tests.kernels.documents import DEVICE, VIEW, counter_run, document, measurement
from viz.measure.charts import point_rows
from viz.measure.figures import four_numbers_figure, roofline_figure
from viz.shared import theme
from viz.shared.figures.sweep import peer_label

NAIVE, OURS = peer_label("naive"), peer_label("ours")


def test_the_four_bars_are_cut_into_kernels():
    run = counter_run("naive", counted=3e9, dram=2.7e9)
    totals = four_totals(run)
    figure = four_numbers_figure("standard", totals, theme.LIGHT.standard, theme.LIGHT)
    sums, parts = Counter(), Counter(bar.y[0] for bar in figure.data)
    for bar in figure.data:
        sums[bar.y[0]] += bar.x[0]
    assert sums["DRAM<br>(recorded)"] == pytest.approx(2.7e9)
    assert sums["requested<br>(modelled)"] == pytest.approx(3e9)  # torch's operations count nothing
    assert parts["modelled"] == 3


def test_an_absent_bar_says_why_in_a_row_of_its_own():
    totals = four_totals(counter_run(counted=0))
    figure = four_numbers_figure("ours", totals, theme.DARK.flash, theme.DARK)
    assert "not counted" in {note.text for note in figure.layout.annotations}
    # a row without a bar would not be on the axis: its reason would lie over the next row
    assert {note.y for note in figure.layout.annotations} == {bar.y[0] for bar in figure.data}


def test_the_roofline_has_both_roofs_and_the_calls_from_the_fastest_on():
    lines, points = roofs(document().ceilings, DEVICE, "float16"), counter_points(document().counters)
    figure = roofline_figure(lines, points, theme.LIGHT)
    assert [max(roof.y) for roof in figure.data[:2]] == [600e12, pytest.approx(989e12, rel=1e-3)]
    assert [roof.line.dash for roof in figure.data[:2]] == ["solid", "dot"]
    calls = figure.data[2:]
    symbols = {trace.name: list(trace.marker.symbol) for trace in calls}
    assert symbols == {OURS: ["circle", "diamond"], NAIVE: ["circle-open", "diamond"]}
    speeds = [trace.y[0] for trace in calls]
    assert speeds == sorted(speeds, reverse=True)


def test_one_point_is_one_row_per_peer():
    rows = point_rows(peer_curves("measured", [measurement(512, naive_fits=False)], VIEW))
    assert (rows["peer"], rows["memory"]) == ([NAIVE, OURS], ["out of memory", "51.2 kB"])
