"""Tables and notes beside the curves."""

import pytest

from kernels.measure.series import View, curves
from tests.kernels.documents import document, measurement
from viz.measure.charts import spread_notes, table_rows
from viz.measure.sources import Source

VIEW = View("length", 1024, 64, "float16", "full", q_heads=4)


@pytest.fixture
def swept():
    return curves("recorded", document().measurements, VIEW)


def test_the_table_says_what_the_chart_shows(swept):
    rows = table_rows(swept, "time", "length")
    assert rows["length"] == ["512", "1,024", "2,048", "4,096"]
    assert rows["naive"] == ["1 ms ±10%", "4 ms ±10%", "16 ms ±10%", "out of memory"]
    assert table_rows(swept, "speedup", "length")["ours"] == ["10×", "10×", "10×", "–"]
    assert spread_notes(swept).startswith("our kernels, tiles tuned for a full GPU forward at ")
    assert spread_notes([curve for curve in swept if curve.peer == "naive"]) == ""


def test_peers_that_met_in_one_run_are_compared_with_each_other():
    together, later = measurement(512), measurement(512)
    alone = type(later)(
        later.problem,
        later.device,
        "2027-01-01T00:00:00",
        (later.results[1].__class__("ours", refused="x"),),
        None,
    )
    recorded = {
        curve.peer: curve
        for curve in Source("recorded", document().with_(measurements=(together, alone))).curves(VIEW)
    }
    assert recorded["ours"].points[0].result == together.results[1]
    live = {
        curve.peer: curve
        for curve in Source("here", document().with_(measurements=(together, alone))).curves(VIEW)
    }
    assert live["ours"].points[0].result.refused == "x"
