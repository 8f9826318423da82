"""Time and memory of the peers on one problem."""

from dataclasses import replace

import pytest

from kernels.device.backend import DeviceInfo
from kernels.device.clocks import Timing
from kernels.measure.measurement import Measurement, PeerResult
from kernels.problem import AttentionProblem
from viz.shared import theme
from viz.shared.figures.sweep import memory_figure, peer_label, time_figure

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
