"""The measured roofline: both roofs, and calls under them."""

import pytest

from kernels.measure.roofline import counter_points, roofs
from tests.kernels.documents import DEVICE, document
from viz.measure.figures.roofline import roofline_figure
from viz.shared import theme


def test_the_roofline_has_both_roofs_and_the_calls_from_the_fastest_on():
    lines, points = roofs(document().ceilings, DEVICE, "float16"), counter_points(document().counters)
    figure = roofline_figure(lines, points, theme.LIGHT)
    assert [max(roof.y) for roof in figure.data[:2]] == [600e12, pytest.approx(989e12, rel=1e-3)]
    assert [roof.line.dash for roof in figure.data[:2]] == ["solid", "dot"]
    assert roofs(document().ceilings, DEVICE, "float16", "recorded")[0].label.startswith("recorded")
    calls = figure.data[2:]
    assert {trace.name for trace in calls} == {"our kernels, tiles tuned for a full GPU", "naive (torch)"}
    symbols = {trace.name: list(trace.marker.symbol) for trace in calls}
    assert symbols["our kernels, tiles tuned for a full GPU"] == ["circle", "diamond"]
    assert symbols["naive (torch)"] == ["circle-open", "diamond"]  # torch's operations count nothing
    speeds = [trace.y[0] for trace in calls]
    assert speeds == sorted(speeds, reverse=True)
