"""Figures of the traffic chapter: the numbers given are the numbers drawn."""

from viz.learn.io.figures import bytes_figure
from viz.shared import theme


def test_modelled_and_counted_bytes_have_a_bar_each_and_what_was_not_counted_has_one():
    figure = bytes_figure({"a": (2000, 2000, "flash"), "b": (500, None, "standard")}, 100, theme.LIGHT)
    bars = {trace.name: trace for trace in figure.data}
    assert dict(zip(bars["modelled"].y, bars["modelled"].x, strict=True)) == {"a": 2000, "b": 500}
    assert dict(zip(bars["counted"].y, bars["counted"].x, strict=True)) == {"a": 2000, "b": None}
    assert bars["modelled"].marker.pattern.shape == "/"
    assert figure.layout.shapes[0].x0 == 100
    (note,) = figure.layout.annotations
    assert note.text.endswith("100 B")
    assert (note.xref, note.x, note.xanchor) == ("paper", 1, "right")  # no room is needed beside the line
