"""The measured roofline: both roofs, and calls under them."""

from kernels.roofline import counter_points, roofs
from tests.kernels.documents import DEVICE, counter_run, document
from viz import theme
from viz.figures.measured_roofline import MOST_NAMED, roofline_figure


def test_the_roofline_has_both_roofs_and_names_a_few_calls_on_the_spot():
    lines, points = roofs(document().ceilings, DEVICE, "float16"), counter_points(document().counters)
    figure = roofline_figure(lines, points, theme.LIGHT)
    assert figure.data[0].name == "measured copy and float16 product: 4 TB/s, 600 TFLOP/s"
    assert figure.data[1].name == "datasheet of the H200 SXM: 4.8 TB/s, 989 TFLOP/s"
    calls = figure.data[2:]
    assert {trace.name for trace in calls} == {"our kernels, tiles tuned for a full GPU", "naive (torch)"}
    assert all(list(trace.marker.symbol) == ["circle", "diamond"] for trace in calls)
    assert not any(trace.showlegend for trace in calls)
    many = [point for peer in range(MOST_NAMED + 1) for point in counter_points([counter_run(f"peer {peer}")])]
    assert all(trace.showlegend for trace in roofline_figure(lines, many, theme.LIGHT).data[2:])
