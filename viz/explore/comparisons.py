"""What a card compares its figure with, in words, and why a comparison is missing or needs one more word."""

from __future__ import annotations

import math
from typing import NamedTuple

from kernels.algorithms.standard.entry import ENTRY as STANDARD
from kernels.algorithms.standard.traffic import standard_bytes, standard_requested
from kernels.measure.measurement import MAX_RATIO_WIDTH, Measurement, PeerResult, TimeRatio, ratio_to_naive
from kernels.problem import AttentionProblem
from kernels.problem.attention_problem import BLOCKS
from viz.shared.formats import format_bytes, format_ms, format_ratio
from viz.shared.runs import Run

NO_BREAK = "\N{NO-BREAK SPACE}"
CLOSE = 1.1
"""A ratio is one number if its upper end is at most this many times its lower end."""


class Compared(NamedTuple):
    """A comparison in a few words for the card, and what its help adds; "" if there is nothing to add."""

    words: str
    explained: str = ""


def bytes_with_standard(run: Run) -> Compared:
    """A run's requested bytes and those of standard attention in the same tiles, which are modelled."""
    problem, algorithm = run.trace.problem, run.algorithm
    ours, rival = run.traffic.total, standard_requested(problem, algorithm.direction)
    if algorithm is STANDARD:
        return _standard_with_its_least(problem, ours)
    words = less_or_more(rival / ours, f"standard {format_bytes(rival)}")
    if ours <= rival or not algorithm.has_formula:
        return Compared(words)
    most = max(BLOCKS)
    large = problem.with_(block_m=most, block_n=most)
    larger, rival_larger = algorithm.requested_bytes(large), standard_requested(large, algorithm.direction)
    tiles = f"{problem.block_m} × {problem.block_n}"
    again = (
        f"Tiles of {tiles} read inputs again and again: FlashAttention-2 reads K and V once per query tile, "
        "other loops Q, O or dO once per key tile. "
    )
    if larger < rival_larger:
        return Compared(
            f"{_times_more(rival / ours)}: tiles too small to profit, standard {format_bytes(rival)}",
            f"{again}Here that costs more than S and P, which it saves. With tiles of {most} × {most} it "
            f"would ask for {format_bytes(larger)}, and standard attention for {format_bytes(rival_larger)} "
            "(modelled).",
        )
    if problem.kv_len > problem.head_dim:
        return Compared(words, again)
    return Compared(
        f"{_times_more(rival / ours)}: problem too small to profit, standard {format_bytes(rival)}",
        f"S has {problem.kv_len} numbers per row and each row of Q, K and V has {problem.head_dim}: there is "
        "too little of S to save.",
    )


def _standard_with_its_least(problem: AttentionProblem, ours: int) -> Compared:
    least = standard_bytes(problem)
    if problem.q_tiles == 1:
        return Compared(f"as modelled: {format_bytes(least)}")
    return Compared(
        f"K and V read once: {format_bytes(least)}",
        "K and V would be read once if they stayed in a cache. This run asks for them once per "
        f"query tile, {problem.q_tiles} times: {format_bytes(ours - least)} more.",
    )


def less_or_more(ratio: float, words: str) -> str:
    """How many times less, or more, than the other figure, which the words name."""
    if format_ratio(max(ratio, 1 / ratio)) == format_ratio(1):
        return f"about as much: {words}"
    if ratio >= 1:
        return f"{format_ratio(ratio)} less: {words}"
    return f"{_times_more(ratio)}: {words}"


def _times_more(ratio: float) -> str:
    return f"{format_ratio(1 / ratio)} more"


def time_with(
    measurement: Measurement, ours: PeerResult, rival: PeerResult | None, called: str = "naive"
) -> Compared:
    """A time and its rival's: the ratio, if the work is large enough and the spread small enough.

    One of the two is naive attention; `called` is the rival's name.
    """
    ratio = _rival_over_ours(ours, rival)
    if ratio is None or rival is None or rival.timing is None:
        return Compared(f"{called} {(rival.refused if rival else None) or 'not run'}")
    took = format_ms(rival.timing.median_ms)
    if measurement.is_mostly_overhead(ours, rival):
        return Compared(
            f"mostly overhead, so no ratio: {called} {took}", _overhead_words(ours, rival, called)
        )
    between = f"{format_ratio(ratio.low)} to {format_ratio(ratio.high)}"
    if not ratio.is_usable:
        low, high = format_ms(rival.timing.low_ms), format_ms(rival.timing.high_ms)
        return Compared(
            f"too noisy to compare: {called} {low} to {high}",
            f"The time of {called} over this one is {between} (10th and 90th percentile). No ratio is shown "
            f"if the upper end is more than {MAX_RATIO_WIDTH:g} times the lower one.",
        )
    return Compared(
        f"{_faster(ratio)}: {called} {took}",
        f"The time of {called} over this one: {between} (10th and 90th percentile).",
    )


def _rival_over_ours(ours: PeerResult, rival: PeerResult | None) -> TimeRatio | None:
    if rival is None or ours.peer != "naive":
        return ratio_to_naive(ours, rival) if rival else None
    ratio = ratio_to_naive(rival, ours)
    return TimeRatio(1 / ratio.high, 1 / ratio.low) if ratio else None


def _overhead_words(ours: PeerResult, rival: PeerResult, called: str) -> str:
    if ours.overhead_ms is None or rival.overhead_ms is None:
        return (
            "The problem is too small for a ratio: at this GPU's bandwidth and peak its modelled bytes and "
            "FLOPs would take less than 1 % of each time. The rest is launches and latency."
        )
    own, theirs = format_ms(ours.overhead_ms), format_ms(rival.overhead_ms)
    return (
        "The problem is too small for a ratio: at least half of each time is the fixed cost of a call. With "
        f"one query and one key, the same call takes {own}, and that of {called} {theirs}."
    )


def _faster(ratio: TimeRatio) -> str:
    """The ratio in words: its middle if its ends are close, or else both ends."""
    if ratio.low <= 1 <= ratio.high:
        return "no clear difference"
    word = "faster" if ratio.low > 1 else "slower"
    ends = (ratio.low, ratio.high) if ratio.low > 1 else (1 / ratio.high, 1 / ratio.low)
    if ends[1] <= CLOSE * ends[0]:
        return f"{format_ratio(math.sqrt(ends[0] * ends[1]))} {word}"
    return f"{format_ratio(ends[0])} to {format_ratio(ends[1])} {word}"


def spread_words(result: PeerResult) -> str:
    """A time with half its spread: 15.6 µs ± 2 %. In a narrow card the line breaks before the spread."""
    if result.timing is None:
        return "–"
    took = format_ms(result.timing.median_ms).replace(" ", NO_BREAK)
    return f"{took} ±{NO_BREAK}{100 * result.timing.spread / 2:.0f}{NO_BREAK}%"


def percentile_words(result: PeerResult) -> str:
    """The spread in full: "10th to 90th percentile 15.3 µs to 16 µs"."""
    if result.timing is None:
        return ""
    low, high = format_ms(result.timing.low_ms), format_ms(result.timing.high_ms)
    return f"10th to 90th percentile {low} to {high}, {result.timing.samples} samples."
