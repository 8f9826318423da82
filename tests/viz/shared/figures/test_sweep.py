"""Figures of measurements: curves of the hand-built document."""

import pytest

from tests.kernels.documents import LENGTHS
from viz.shared import theme
from viz.shared.figures.sweep import peer_label, short_reason, sweep_figure


@pytest.mark.parametrize(
    ("refused", "shown"),
    [
        ("No available kernel. Aborting execution.", "does not take this problem"),
        ("needs a GPU", "needs a GPU"),
        (70 * "long ", "long " * 11 + "…"),
    ],
)
def test_a_refusal_is_one_short_line(refused, shown):
    assert short_reason(refused) == shown


def traces(figure):
    return {trace.name.split("  ")[0]: trace for trace in figure.data}


def test_time_is_drawn_with_its_spread_and_exponent(swept):
    figure = sweep_figure(swept, "time", "length", theme.LIGHT)
    naive, ours = traces(figure)["standard (torch)"], traces(figure)[peer_label("ours")]
    assert list(ours.x) == list(LENGTHS)
    assert list(naive.y) == [1.0, 4.0, 16.0]
    assert list(naive.error_y.array) == pytest.approx([0.1, 0.4, 1.6])
    assert naive.name.endswith("N<sup>2.00</sup>")
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")
    assert list(figure.layout.xaxis.ticktext) == ["512", "1k", "2k", "4k"]


def test_running_out_of_memory_is_drawn_where_it_happens(swept):
    figure = sweep_figure(swept, "memory", "length", theme.DARK)
    line = figure.layout.shapes[0]
    assert (line.x0, line.x1) == (4096, 4096)
    assert "needs 68.0 GB" in figure.layout.annotations[0].text
    needed = traces(figure)["standard (torch): needed (modelled)"]
    assert list(needed.y) == [2 * 4 * 4096**2 * 2]
    assert len(sweep_figure(swept, "time", "length", theme.DARK).layout.shapes) == 1


def test_speed_up_leaves_naive_out_and_stops_where_naive_does(swept):
    (ours,) = sweep_figure(swept, "speedup", "length", theme.LIGHT).data
    assert list(ours.x) == [512, 1024, 2048]
    assert list(ours.y) == pytest.approx([10, 10, 10])
