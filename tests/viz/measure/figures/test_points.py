"""All peers at one shape: one bar per peer."""

from kernels.measure.series import SweepView, peer_curves
from tests.kernels.documents import measurement
from viz.measure.charts import point_rows
from viz.measure.figures.points import point_figure
from viz.shared import theme

VIEW = SweepView("length", 1024, 64, "float16", "full", q_heads=4)


def test_one_point_is_one_bar_per_peer():
    shown = peer_curves("measured", [measurement(512, naive_fits=False)], VIEW)
    figure = point_figure(shown, "time", theme.LIGHT)
    assert dict(zip(figure.data[0].y, figure.data[0].x, strict=True)) == {
        "naive (torch)": 0,
        "our kernels, tiles tuned for a full GPU": 0.1,
    }
    assert {note.text for note in figure.layout.annotations} == {"100 µs", "needs 68.0 GB, 24.0 GB free"}
    rows = point_rows(shown)
    assert rows["peer"] == ["naive (torch)", "our kernels, tiles tuned for a full GPU"]
    assert rows["memory"] == ["out of memory", "51.2 kB"]
