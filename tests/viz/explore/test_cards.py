"""The cards: bytes and times compared, and when they cannot or should not be."""

from dataclasses import replace

import pytest

from kernels.algorithms.standard.traffic import standard_bytes, standard_ledger
from kernels.device.backend import DeviceInfo
from kernels.device.clocks import METHODS, Timing
from kernels.measure.measurement import Measurement, PeerResult
from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_measurement, recorded_measurements
from tests.kernels.documents import measurement
from viz.explore.cards import (
    four_cards,
    less_or_more,
    measurement_words,
    on_gpu_words,
    spread_words,
    time_with,
    timed_words,
)
from viz.shared import runs
from viz.shared.formats import format_bytes, format_error, format_ms

PROBLEM = AttentionProblem(q_len=32, kv_len=32, head_dim=16, block_m=8, block_n=8)
CPU = DeviceInfo("interpreter", "a CPU", "2.13", "3.6", "3")


def recorded(preset, algorithm):
    return runs.recorded(PRESETS[preset].problem, algorithm)


def peer(name, low, median, high, **named):
    return PeerResult(name, Timing(median, low, high, 40), 1000, **named)


def compared(ours, naive):
    return time_with(Measurement(PROBLEM, CPU, "2026-01-01", (ours, naive)), ours, naive)


def test_the_four_cards_of_a_recording_hold_its_numbers():
    run = recorded("gpt2", "flash2")
    measurement = recorded_measurement(run.trace.problem)
    error, moved, time, memory = four_cards(run, measurement)
    ours = measurement.result("flash2")
    assert (error.value, error.passes) == (format_error(run.report.max_error), True)
    assert format_error(run.report.tolerance) in error.comparison
    assert (moved.value, moved.comparison[:9], moved.comparison[-7:]) == ("2.49 MB", "5.1× less", "12.8 MB")
    assert time.value == spread_words(ours)
    words = measurement_words(measurement, run)
    assert all(each in words for each in ("**Recorded** 20", "NVIDIA H200", METHODS["cuda"]))
    assert memory.value == format_bytes(ours.peak_extra_bytes)
    origins = [card.label.rpartition(" · ")[2] for card in four_cards(run, measurement)]
    assert origins == ["recorded", "counted", "recorded", "recorded"]


def test_a_wrong_result_is_red():
    run = recorded("tiny", "flash2")
    assert four_cards(replace(run, report=replace(run.report, max_error=9.0)), None)[0].passes is False
    assert [card.value for card in four_cards(run, None)[2:]] == ["–", "–"]


def test_beside_a_second_run_the_bytes_are_compared_with_its():
    run, other = recorded("gpt2", "flash1"), recorded("gpt2", "flash2")
    cards = four_cards(run, recorded_measurement(run.trace.problem), other)
    assert all(card.label.startswith("A: ") for card in cards)
    ratio = run.traffic.total / other.traffic.total
    assert cards[1].comparison == less_or_more(1 / ratio, f"B {format_bytes(other.traffic.total)}")


@pytest.mark.parametrize("algorithm", ["standard", "split_kv"])
def test_a_time_of_something_else_is_named_by_what_was_timed(algorithm):
    run = recorded("decode" if algorithm == "split_kv" else "gpt2", algorithm)
    measurement = recorded_measurement(run.trace.problem)
    timed = run.algorithm.timed_as
    time = four_cards(run, measurement)[2]
    assert time.label.startswith(timed.timing_source)
    assert time.value == spread_words(measurement.result(timed.peer))
    assert timed.timing_source in timed_words(measurement, run.algorithm)
    assert timed_words(measurement, recorded("gpt2", "flash2").algorithm) == ""


def test_standard_attention_is_compared_with_itself_if_it_reads_its_inputs_once():
    run = recorded("gpt2", "standard")
    problem, ledger = run.trace.problem, standard_ledger(run.trace.problem)
    again = (problem.q_tiles - 1) * (ledger["K"] + ledger["V"])
    assert run.trace.total_bytes == standard_bytes(problem) + again
    assert four_cards(run, None)[1].comparison.endswith(": 8.91 MB")


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        ((2.1, 2.8), "2.1× to 2.8× faster"),
        ((2.76, 2.84), "2.8× faster"),
        ((0.4, 0.5), "2.0× to 2.5× slower"),
        ((0.9, 1.1), "no clear difference"),
        ((1.1, 99), "no clear difference"),
    ],
)
def test_a_ratio_is_as_wide_as_its_spread(ratio, words):
    ours, naive = peer("sdpa", 1.0, 1.1, 1.2, naive_ratio=ratio), peer("naive", 2.5, 2.7, 2.9)
    assert compared(ours, naive).partition(":")[0] == words


def test_beside_a_run_that_no_gpu_timed_stand_the_recorded_times_and_how_far_they_are():
    run = recorded("llama3", "flash2")
    exact = on_gpu_words(None, run, recorded_measurements())
    assert "**Recorded**, NVIDIA H200" in exact.replace("\\", "")
    assert format_ms(recorded_measurement(run.trace.problem).result("ours").timing.median_ms) in exact
    far = on_gpu_words(None, run, [measurement(8192, mask="causal")]).replace("\\", "")
    assert "**nearest recording**" in far
    assert "length 8,192, not 2,048; heads 4 over 4, not 1 over 1; head_dim 64, not 128" in far
    assert "No recording" in on_gpu_words(None, run, [])
    assert on_gpu_words(recorded_measurement(run.trace.problem), run, []) == ""
