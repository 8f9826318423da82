"""Tables and notes beside the curves."""

import re
from dataclasses import replace

from kernels.measure.measurement import PeerResult
from kernels.measure.series import peer_curves
from tests.kernels.documents import VIEW, document, measurement
from viz.measure.charts import largest_comparison, point_rows, table_rows
from viz.measure.sources import Source
from viz.shared import theme
from viz.shared.figures.sweep import peer_label, sweep_figure


def test_the_table_says_what_the_chart_shows(swept):
    rows = table_rows(swept, "time", "length")
    assert rows["length"] == ["512", "1,024", "2,048", "4,096"]
    assert rows["standard (torch)"] == ["1 ms ±10%", "4 ms ±10%", "16 ms ±10%", "out of memory"]
    assert table_rows(swept, "speedup", "length")[peer_label("ours")] == ["10×", "10×", "10×", "–"]


def test_call_time_stands_apart_from_the_kernels_time(swept):
    ours = [curve for curve in swept if curve.peer == "ours"]
    assert table_rows(ours, "call", "length")[peer_label("ours")] == ["–"] * 4  # older than call times
    assert "call time" not in point_rows(ours)
    called = [replace(curve, points=tuple(with_call_time(point) for point in curve.points)) for curve in ours]
    assert table_rows(called, "time", "length") == table_rows(ours, "time", "length")
    (line,) = sweep_figure(called, "call", "length", theme.LIGHT).data
    assert list(line.y) == [0.25] * 4
    texts = (table_rows(called, "call", "length")[peer_label("ours")][0], point_rows(called)["call time"][0])
    for text in texts:  # the call, and until the host is free
        assert re.findall(r"[\d.]+ µs", text)[:2] == ["250 µs", "40 µs"]


def with_call_time(point):
    return replace(point, result=replace(point.result, host_ms=0.04, call_ms=0.25))


def test_peers_that_met_in_one_run_are_compared_with_each_other():
    together = measurement(512)
    alone = replace(
        together, recorded_at="2027-01-01T00:00:00", results=(PeerResult("ours", refused="too late"),)
    )
    both = replace(document(), measurements=(together, alone))
    recorded, live = (
        {curve.peer: curve for curve in Source(name, both).curves(VIEW)} for name in ("recorded", "measured")
    )
    assert recorded["ours"].points[0].result == together.results[1]
    assert live["ours"].points[0].result.refused == "too late"


def test_the_cards_compare_at_the_largest_length_that_both_peers_have():
    naive_fits = [measurement(n, naive_fits=n < 4096) for n in (512, 1024, 4096)]
    recorded = peer_curves("recorded", naive_fits, VIEW)
    naive, fused, x = largest_comparison(recorded)
    assert (naive.peer, fused.peer, naive.source, x) == ("naive", "ours", "recorded", 1024)
    live = peer_curves("measured", [measurement(512)], VIEW)
    assert largest_comparison(recorded + live)[0].source == "measured"
    assert largest_comparison(recorded[:1]) is None
