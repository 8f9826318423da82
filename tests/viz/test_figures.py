"""Figures on hand-built traces and measurements: the right numbers, with their source in words."""

import numpy as np
import pytest

from kernels.backend import DeviceInfo
from kernels.clocks import Timing
from kernels.measure import Measurement, PeerResult
from kernels.problem import AttentionProblem
from kernels.schedule import program_spans, step_schedule
from kernels.tiles import count_tiles
from kernels.trace import run_traced
from kernels.traffic import standard_ledger
from tests.viz.test_player_data import hand_built
from viz import theme
from viz.figures.comparison import memory_figure, time_figure
from viz.figures.ledger import difference_table, kernel_ledger, ledger_figure, ledgers_of
from viz.figures.mask import mask_figure, tile_kinds
from viz.figures.row_state import gradient_figures, row_state_figures, spread_rows, state_figures
from viz.figures.timeline import busy_share, timeline_figure

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


def test_the_ledger_sets_counted_beside_modelled():
    trace = hand_built(PROBLEM)
    assert kernel_ledger(trace) == {"Q": 20, "K": 100, "V": 200, "O": 28, "lse": 0}
    standard, ours = ledger_figure(*ledgers_of(trace), theme.LIGHT).data
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


def test_two_runs_are_compared_tensor_by_tensor():
    runs = [run_traced(PROBLEM, name) for name in ("flash2", "flash1")]
    first, second = ledgers_of(*runs)
    assert second.label.startswith("B: FlashAttention-1")
    rows = {row["tensor"]: row for row in difference_table(first, second)}
    assert rows["all"]["A"] == theme.format_bytes(runs[0].total_bytes)
    assert rows["all"]["B"] == theme.format_bytes(runs[1].total_bytes)
    assert rows["K"]["B − A"].startswith("−")  # key outer reads every key tile once
    assert rows["O"]["B − A"].startswith("+")  # and O at every step


def test_a_backward_run_is_set_beside_the_standard_backward_pass():
    trace = run_traced(PROBLEM, "backward")
    own, standard = ledgers_of(trace)
    assert standard.modelled
    assert {"dP", "dS", "P"} <= set(standard.bytes)
    assert not {"dP", "dS", "P", "S"} & set(own.bytes)
    figures = state_figures(trace, theme.LIGHT)
    assert list(figures) == ["dQ", "dK", "dV"]
    for figure in gradient_figures(trace, theme.LIGHT).values():
        for line in figure.data:
            assert line.y[-1] <= line.y[0]  # the sum arrives at the final gradient


@pytest.mark.parametrize("mask", ["full", "causal", "window"])
def test_the_mask_view_counts_what_the_traversal_counts(mask):
    problem = PROBLEM.with_(mask=mask, window_left=20, q_len=50)
    counts = count_tiles(problem)
    kinds = tile_kinds(problem)
    assert [int((kinds == kind).sum()) for kind in (0, 1, 2)] == [counts.skipped, counts.partial, counts.full]
    assert np.array_equal(mask_figure(problem, theme.LIGHT).data[0].z, kinds)


def test_large_masks_are_thinned_out():
    kinds = tile_kinds(PROBLEM.with_(q_len=16384, kv_len=16384))
    assert kinds.shape == (256, 256)
    assert kinds[0].tolist() == [1] + [0] * 255


def test_the_timeline_has_a_bar_a_program_on_its_sm():
    trace = run_traced(PROBLEM.with_(q_heads=2, kv_heads=2), "flash2")
    schedule = step_schedule(trace, 3)
    spans = program_spans(trace, schedule)
    bars = timeline_figure(spans, schedule, theme.LIGHT).data[0]
    assert len(bars.x) == 8
    assert sorted(set(bars.y)) == [0, 1, 2]
    assert sum(bars.x) == trace.steps
    assert 0.5 < busy_share(spans, 3) <= 1
    assert busy_share(spans, 6) == pytest.approx(busy_share(spans, 3) / 2)
