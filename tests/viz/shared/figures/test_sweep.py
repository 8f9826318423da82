"""Figures of measurements: the peers on one problem, and curves of the hand-built document."""

from dataclasses import replace

import pytest

from kernels.device.backend import DeviceInfo
from kernels.device.clocks import Timing
from kernels.measure.measurement import Measurement, PeerResult
from kernels.measure.series import SweepView, peer_curves
from kernels.problem import AttentionProblem
from tests.kernels.documents import LENGTHS, document
from viz.shared import theme
from viz.shared.figures.sweep import memory_figure, peer_label, sweep_figure, time_figure

PROBLEM = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=16, mask="causal")


@pytest.fixture
def measurement():
    results = (
        PeerResult("naive", refused="needs 68 GB, 24 GB free"),
        PeerResult("flash2", Timing(2.0, 1.5, 3.0, 20), 5_000_000),
    )
    return Measurement(PROBLEM, DeviceInfo("cuda", "NVIDIA H200", "2", "3", "3"), "2026-01-01", results)


def test_time_shows_median_and_spread_and_a_refusal_as_a_result(measurement):
    figure = time_figure(measurement, theme.DARK)
    bars = figure.data[0]
    assert dict(zip(bars.y, bars.x, strict=True)) == {"naive (torch)": 0, peer_label("flash2"): 2.0}
    assert list(bars.error_x.array) == [1.0, 0.0]
    assert list(bars.error_x.arrayminus) == [0.5, 0.0]
    assert {note.text for note in figure.layout.annotations} == {"2 ms", "needs 68 GB, 24 GB free"}
    assert "5 MB" in {note.text for note in memory_figure(measurement, theme.DARK).layout.annotations}


@pytest.mark.parametrize(
    ("refused", "shown"),
    [
        ("No available kernel. Aborting execution.", "does not take this problem"),
        ("needs a GPU", "needs a GPU"),
        ("head_dim=16 is not accepted: it is a multiple of 8 from 40 to 256", None),
    ],
)
def test_a_refusal_is_one_short_line_beside_its_bar_and_whole_when_asked(measurement, refused, shown):
    naive, flash2 = measurement.results
    figure = time_figure(replace(measurement, results=(replace(naive, refused=refused), flash2)), theme.DARK)
    (beside,) = {note.text for note in figure.layout.annotations} - {"2 ms"}
    assert beside == shown or (shown is None and len(beside) <= 48 and beside.endswith(" …"))
    assert refused in figure.data[0].hovertext


VIEW = SweepView("length", 1024, 64, "float16", "full", q_heads=4)


@pytest.fixture
def swept():
    return peer_curves("recorded", document().measurements, VIEW)


def traces(figure):
    return {trace.name.split("  ")[0]: trace for trace in figure.data}


def test_time_is_drawn_with_its_spread_and_exponent(swept):
    figure = sweep_figure(swept, "time", "length", theme.LIGHT)
    naive, ours = traces(figure)["naive (torch)"], traces(figure)[peer_label("ours")]
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
    needed = traces(figure)["naive (torch): needed (modelled)"]
    assert list(needed.y) == [2 * 4 * 4096**2 * 2]
    assert len(sweep_figure(swept, "time", "length", theme.DARK).layout.shapes) == 1


def test_speed_up_leaves_naive_out_and_stops_where_naive_does(swept):
    (ours,) = sweep_figure(swept, "speedup", "length", theme.LIGHT).data
    assert list(ours.x) == [512, 1024, 2048]
    assert list(ours.y) == pytest.approx([10, 10, 10])
