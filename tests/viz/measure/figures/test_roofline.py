"""The measured roofline: both roofs, and calls under them."""

from kernels.measure.roofline import counter_points, roofs
from tests.kernels.documents import DEVICE, document
from viz.measure.figures.roofline import roofline_figure
from viz.shared import theme


def test_the_roofline_has_both_roofs_and_the_calls_from_the_fastest_on():
    lines, points = roofs(document().ceilings, DEVICE, "float16"), counter_points(document().counters)
    figure = roofline_figure(lines, points, theme.LIGHT)
    assert figure.data[0].name == "measured, float16 product: 4 TB/s, 600 TFLOP/s"
    assert figure.data[1].name == "datasheet of the H200 SXM: 4.8 TB/s, 989 TFLOP/s"
    recorded = roofline_figure(roofs(document().ceilings, DEVICE, "float16", "recorded"), [], theme.LIGHT)
    assert recorded.data[0].name == "recorded, float16 product: 4 TB/s, 600 TFLOP/s"
    calls = figure.data[2:]
    assert {trace.name for trace in calls} == {"our kernels, tiles tuned for a full GPU", "naive (torch)"}
    symbols = {trace.name: list(trace.marker.symbol) for trace in calls}
    assert symbols["our kernels, tiles tuned for a full GPU"] == ["circle", "diamond"]
    assert symbols["naive (torch)"] == ["circle-open", "diamond"]  # torch's operations count nothing
    speeds = [trace.y[0] for trace in calls]
    assert speeds == sorted(speeds, reverse=True)
