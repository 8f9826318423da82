"""Figures of the traffic chapter: the numbers given are the numbers drawn."""

from viz.learn.io.figures import ByteBar, Curve, SramBar, blocks_figure, bytes_figure, growth_figure
from viz.shared import theme


def test_modelled_and_counted_bytes_have_a_bar_each_and_what_was_not_counted_has_one():
    figure = bytes_figure(
        [ByteBar("a", 2000, 2000, "flash"), ByteBar("b", 500, None, "standard")], 100, theme.LIGHT
    )
    bars = {trace.name: trace for trace in figure.data}
    assert dict(zip(bars["modelled"].y, bars["modelled"].x, strict=True)) == {"a": 2000, "b": 500}
    assert dict(zip(bars["counted"].y, bars["counted"].x, strict=True)) == {"a": 2000, "b": None}
    assert bars["modelled"].marker.pattern.shape == "/"
    assert figure.layout.shapes[0].x0 == 100
    (note,) = figure.layout.annotations
    assert note.text.endswith("100 B")
    assert (note.xref, note.x, note.xanchor) == ("paper", 1, "right")  # no room is needed beside the line


def test_growth_draws_counted_points_on_their_curve_and_leaves_gaps():
    curves = [
        Curve("one", [1, 2, 4], [10, 20, None], "flash"),
        Curve("bound", [1, 2, 4], [1, 1, 1], "muted", "dash"),
    ]
    figure = growth_figure(curves, {"one": [(2, 20)]}, "T", 2, theme.DARK)
    named = {trace.name: trace for trace in figure.data}
    assert list(named["one"].y) == [10, 20, None]
    assert (list(named["one, counted"].x), list(named["one, counted"].y)) == ([2], [20])
    assert named["bound"].line.dash == "dash"
    assert figure.layout.shapes[0].x0 == 2


def test_blocks_say_what_is_too_much():
    bars = [
        SramBar("small", [("Q", 1024), ("K/V", 1024)]),
        SramBar("large", [("Q", 4096), ("K", 4096), ("P", 2048)]),
    ]
    figure = blocks_figure(bars, {"M": 8192, "GPU": 200 << 10}, theme.LIGHT)
    assert sum(trace.x[list(trace.y).index("large")] for trace in figure.data if "large" in trace.y) == 10240
    words = [note.text for note in figure.layout.annotations]
    assert "2 KiB" in words
    assert "10 KiB (+2)" in words
    assert [shape.x0 for shape in figure.layout.shapes] == [8192, 200 << 10]
