"""What the cards say: the bytes and the time compared, and the words if they cannot or should not be."""

from dataclasses import replace

import pytest

from kernels.algorithms import run_traced
from kernels.algorithms.standard.traffic import standard_bytes, standard_ledger, standard_requested
from kernels.device.backend import DeviceInfo
from kernels.device.clocks import METHODS, Timing
from kernels.measure.measurement import Measurement, PeerResult
from kernels.oracle.rule import judge_trace
from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_measurement
from tests.anywhere import ANYWHERE
from viz.explore.cards import measurement_words
from viz.explore.comparisons import (
    bytes_with_standard,
    less_or_more,
    percentile_words,
    spread_words,
    time_with,
)
from viz.shared import runs
from viz.shared.formats import format_bytes

PROBLEM = AttentionProblem(q_len=32, kv_len=32, head_dim=16, block_m=8, block_n=8)
CPU = DeviceInfo("interpreter", "a CPU", "2.13", "3.6", "3")
H200 = DeviceInfo("cuda", "NVIDIA H200", "2.13", "3.6", "3")


def run_of(problem, algorithm, **named):
    trace = run_traced(problem, algorithm)
    return runs.Run(trace, judge_trace(trace), recorded=False, **named)


def recorded(preset, algorithm):
    return runs.recorded(PRESETS[preset].problem, algorithm)


def peer(name, low, median, high, **named):
    return PeerResult(name, Timing(median, low, high, 40), 1000, **named)


def compared(ours, naive, device=CPU, problem=PROBLEM):
    return time_with(Measurement(problem, device, "2026-01-01", (ours, naive)), ours, naive)


def test_fewer_bytes_need_no_explanation():
    assert bytes_with_standard(recorded("gpt2", "flash2")) == ("5.1× less: standard 12.8 MB", "")


@pytest.mark.parametrize("algorithm", ["flash1", "backward_q_outer"])
def test_more_bytes_because_of_small_tiles_say_so_and_what_large_tiles_ask_for(algorithm):
    run = recorded("tiny", algorithm)
    words, explained = bytes_with_standard(run)
    assert "more: tiles too small to profit, standard " in words
    large = run_of(run.trace.problem.with_(block_m=128, block_n=128), algorithm)
    rival = standard_requested(large.trace.problem, run.algorithm.direction)
    assert f"With tiles of 128 × 128 it would ask for {format_bytes(large.traffic.total)}, and" in explained
    assert f"standard attention for {format_bytes(rival)} (modelled)" in explained
    assert large.traffic.total < rival


def test_more_bytes_because_of_a_small_problem_say_so():
    run = run_of(PROBLEM.with_(head_dim=128, block_m=32, block_n=32), "flash1")
    words, explained = bytes_with_standard(run)
    assert "more: problem too small to profit, standard " in words
    assert "S has 32 numbers per row and each row of Q, K and V has 128" in explained


def test_standard_attention_says_how_much_of_it_a_cache_could_save():
    run = recorded("gpt2", "standard")
    problem, counted = run.trace.problem, run.trace.total_bytes
    words, explained = bytes_with_standard(run)
    assert words == "K and V read once: 8.91 MB"
    ledger = standard_ledger(problem)
    again = (problem.q_tiles - 1) * (ledger["K"] + ledger["V"])
    assert counted == standard_bytes(problem) + again  # the sentence is the whole difference
    assert f"once per query tile, {problem.q_tiles} times: {format_bytes(again)} more" in explained


def test_standard_attention_in_one_query_tile_is_as_modelled():
    run = run_of(PROBLEM.with_(block_m=32), "standard")
    assert run.trace.total_bytes == standard_bytes(run.trace.problem)
    assert bytes_with_standard(run) == (f"as modelled: {format_bytes(run.trace.total_bytes)}", "")


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        ((2.1, 2.8), "2.1× to 2.8× faster"),
        ((2.75, 2.85), "2.8× faster"),
        ((0.4, 0.5), "2.0× to 2.5× slower"),
        ((0.9, 1.1), "no clear difference"),
    ],
)
def test_a_ratio_is_as_wide_as_its_spread(ratio, words):
    ours, naive = peer("sdpa", 1.0, 1.1, 1.2, naive_ratio=ratio), peer("naive", 2.5, 2.7, 2.9)
    assert compared(ours, naive).words == f"{words}: naive 2.7 ms"
    assert "10th and 90th percentile" in compared(ours, naive).explained


def test_a_ratio_that_the_spread_cannot_carry_is_not_shown():
    ours, naive = peer("sdpa", 0.05, 0.06, 0.1), peer("naive", 0.1, 60.0, 130.0)
    words, explained = compared(ours, naive)
    assert words == "too noisy to compare: naive 100 µs to 130 ms"
    assert "1.0× to 2,600×" in explained
    assert "faster" not in words + explained


def test_times_that_are_mostly_the_cost_of_a_call_are_not_compared():
    ours = peer("sdpa", 0.009, 0.01, 0.011, overhead_ms=0.007)
    naive = peer("naive", 0.019, 0.02, 0.021, overhead_ms=0.016)
    words, explained = compared(ours, naive)
    assert words == "mostly overhead, so no ratio: naive 20 µs"
    assert "the same call takes 7 µs, and that of naive 16 µs" in explained
    assert compared(replace(ours, overhead_ms=0.001), naive).words.endswith("faster: naive 20 µs")


def test_a_tiny_problem_on_a_gpu_is_not_compared():
    ours, naive = peer("flash2", 0.011, 0.0118, 0.012), peer("naive", 0.0108, 0.0111, 0.0115)
    words, explained = compared(ours, naive, H200)
    assert words == "mostly overhead, so no ratio: naive 11.1 µs"
    assert "launches" in explained
    large = PROBLEM.with_(q_len=4096, kv_len=4096)
    assert not compared(ours, naive, H200, large).words.startswith("mostly overhead")


def test_naive_that_was_refused_says_why():
    ours, naive = peer("sdpa", 1.0, 1.0, 1.0), PeerResult("naive", refused="needs 68 GB, 24 GB free")
    assert compared(ours, naive).words == "naive needs 68 GB, 24 GB free"


def test_naive_attention_is_compared_with_a_fused_one():
    ours, rival = peer("naive", 2.5, 2.7, 2.9), peer("flash2", 1.0, 1.1, 1.2, naive_ratio=(2.1, 2.8))
    measurement = Measurement(PROBLEM.with_(q_len=4096, kv_len=4096), H200, "2026-01-01", (ours, rival))
    words, explained = time_with(measurement, ours, rival, "FlashAttention-2")
    assert words == "2.1× to 2.8× slower: FlashAttention-2 1.1 ms"
    assert explained.startswith("The time of FlashAttention-2 over this one: 0.4× to 0.5× (10th")
    assert time_with(measurement, ours, None, "FlashAttention-2").words == "FlashAttention-2 not run"


def test_a_time_carries_its_spread():
    result = peer("sdpa", 0.95, 1.0, 1.05)
    assert spread_words(result).replace("\N{NO-BREAK SPACE}", " ") == "1 ms ± 5 %"
    assert percentile_words(result) == "10th to 90th percentile 950 µs to 1.05 ms, 40 samples."


@pytest.mark.parametrize("algorithm", ANYWHERE)
def test_what_traced_the_algorithm_is_what_ran_it(algorithm):
    run = run_of(PROBLEM.with_(block_m=16, block_n=16), algorithm, seconds=2.0)
    measurement = Measurement(PROBLEM, CPU, "2026-01-01", ())
    words = measurement_words(measurement, run)
    assert ("interpreter" in words) == (run.algorithm.runs_in == "triton")
    assert ("in torch" in words.partition("To trace")[2]) == (run.algorithm.runs_in == "torch")
    assert "2 s" in words
    assert METHODS["interpreter"].capitalize() in words


def test_a_recorded_time_says_where_and_how_it_was_taken():
    run = recorded("gpt2", "flash2")
    words = measurement_words(recorded_measurement(run.trace.problem), run)
    assert words.startswith("**Recorded** 20")
    assert "NVIDIA H200" in words
    assert METHODS["cuda"] in words


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(2.0, "2.0× less: x"), (0.5, "2.0× more: x"), (1.04, "about as much: x"), (0.97, "about as much: x")],
)
def test_figures_that_are_nearly_equal_are_not_told_apart(ratio, words):
    assert less_or_more(ratio, "x") == words
