"""Figures on hand-built traces and measurements: the right numbers, with their source in words."""

import numpy as np
import pytest

from kernels.backend import DeviceInfo
from kernels.clocks import Timing
from kernels.measure import Measurement, PeerResult
from kernels.problem import AttentionProblem
from kernels.traffic import standard_ledger
from tests.viz.test_player_data import hand_built
from viz import theme
from viz.figures.comparison import memory_figure, time_figure
from viz.figures.ledger import kernel_ledger, ledger_figure
from viz.figures.row_state import row_state_figures, spread_rows

PROBLEM = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=16, mask="causal")


def test_row_state_draws_one_line_a_row_over_the_tiles_it_visited():
    trace = hand_built(PROBLEM)
    figures = row_state_figures(trace, [(0, 0), (0, 63)], theme.LIGHT)
    assert list(figures) == ["row max m", "row sum l", "distance from the final output"]
    lines = figures["row sum l"].data
    assert [line.name for line in lines] == ["row 0", "row 63"]
    assert list(lines[0].x) == [0]
    assert list(lines[1].y) == [16, 32, 48, 64]


def test_row_state_leaves_out_what_was_not_recorded():
    trace = hand_built(PROBLEM)
    object.__setattr__(trace, "output_distance", None)
    assert list(row_state_figures(trace, [(0, 0)], theme.LIGHT)) == ["row max m", "row sum l"]


def test_rows_are_spread_from_the_first_to_the_last():
    assert spread_rows(hand_built(PROBLEM), 3) == [(0, 0), (0, 32), (0, 63)]
    assert spread_rows(hand_built(PROBLEM.with_(q_len=1)), 3) == [(0, 0)]


def test_the_ledger_sets_counted_beside_modelled():
    trace = hand_built(PROBLEM)
    assert kernel_ledger(trace) == {"Q": 20, "K": 100, "V": 200, "O": 28, "lse": 0}
    standard, ours = ledger_figure(trace, theme.LIGHT).data
    assert "modelled" in standard.name
    assert "counted: 348 B" in ours.name
    assert dict(zip(ours.y, ours.x, strict=True)) == kernel_ledger(trace) | {"S": 0, "P": 0}
    assert dict(zip(standard.y, standard.x, strict=True)) == standard_ledger(PROBLEM) | {"lse": 0}


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
    assert dict(zip(bars.y, bars.x, strict=True)) == {"naive (torch)": 0, "our kernel": 2.0}
    assert list(bars.error_x.array) == [1.0, 0.0]
    assert list(bars.error_x.arrayminus) == [0.5, 0.0]
    assert {note.text for note in figure.layout.annotations} == {"2 ms", "needs 68 GB, 24 GB free"}
    assert "5 MB" in {note.text for note in memory_figure(measurement, theme.DARK).layout.annotations}


@pytest.mark.parametrize("colors", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
def test_text_and_marks_stand_out_from_the_background(colors):
    """WCAG 2: 4.5:1 for text, 3:1 for marks."""

    def luminance(color):
        channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))

    def contrast(a, b):
        high, low = sorted((luminance(a), luminance(b)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    for background in (colors.background, colors.surface):
        assert contrast(colors.text, background) >= 7
        assert contrast(colors.muted, background) >= 4.5
        for name in ("query", "key", "value", "output", "state", "flash", "standard", "now", "good", "bad"):
            assert contrast(getattr(colors, name), background) >= 3, (name, background)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (999_600, "1 MB"), (1_181_696, "1.18 MB"), (68e9, "68 GB"), (2e14, "200 TB")]
)
def test_bytes_read_well(count, text):
    assert theme.format_bytes(count) == text


@pytest.mark.parametrize(("value", "text"), [(0.0911, "91.1 µs"), (1.5, "1.5 ms"), (12345.0, "12.3 s")])
def test_times_read_well(value, text):
    assert theme.format_ms(value) == text
