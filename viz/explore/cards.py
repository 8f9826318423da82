"""The four figures that are read first: error, bytes, time, memory."""

from __future__ import annotations

from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.algorithms.standard.entry import ENTRY as STANDARD
from kernels.algorithms.standard.traffic import standard_bytes
from kernels.measure.measurement import Measurement, PeerResult
from kernels.oracle.report import FACTORS, rule_words
from kernels.trace.algorithm import Algorithm
from viz.shared.formats import format_bytes, format_error, format_ms, format_ratio
from viz.shared.runs import Run

Color = Literal["green", "red", "off"]

REQUESTED = (
    "Counted: bytes that the kernel's loads and stores asked for. Modelled for standard attention: S and P "
    "are written to HBM and read back (Dao et al. 2022, algorithm 0)."
)


def four_figures(run: Run, measurement: Measurement | None, other: Run | None = None) -> None:
    """One row of cards; a figure that was not measured says so.

    Beside a second run, B, the cards are about A, and compare its bytes with B's.
    """
    row = st.container(horizontal=True, gap="small", key="figures")
    origin = "recorded" if run.recorded else "measured"
    mark = "A: " if other else ""
    _error_card(row, f"{mark}Error · {origin}", run)
    ours = run.trace.total_bytes
    rival, whose = standard_bytes(run.trace.problem, run.algorithm.direction), "standard"
    if other:
        rival, whose = other.trace.total_bytes, "B"
    elif run.algorithm is STANDARD:
        whose = "modelled"
    comparison = _against(rival / ours, f"{whose} {format_bytes(rival)}")
    _card(row, f"{mark}Bytes · counted", format_bytes(ours), comparison, REQUESTED)
    explained = measurement_words(measurement, run)
    for words in _time_and_memory(measurement, origin, run.algorithm):
        _card(row, f"{mark}{words[0]}", *words[1:], explained)


def _error_card(row: DeltaGenerator, label: str, run: Run) -> None:
    report = run.report
    allowed = f"{'passes' if report.passes else 'FAILS'}: allowed {format_error(report.tolerance)}"
    rule = rule_words(FACTORS[run.algorithm.direction])
    color: Color = "green" if report.passes else "red"
    _card(row, label, format_error(report.max_error), allowed, rule, color=color)


def _card(
    row: DeltaGenerator, label: str, value: str, comparison: str, explained: str, color: Color = "off"
) -> None:
    row.metric(label, value, comparison, delta_color=color, delta_arrow="off", help=explained, border=True)


def _against(ratio: float, words: str) -> str:
    if ratio >= 1:
        return f"{format_ratio(ratio)} less: {words}"
    return f"{format_ratio(1 / ratio)} more: {words}"


def _faster(ratio: float, words: str) -> str:
    if 0.95 < ratio < 1.05:
        return f"about the same: {words}"
    if ratio > 1:
        return f"{format_ratio(ratio)} faster: {words}"
    return f"{format_ratio(1 / ratio)} slower: {words}"


def _time_and_memory(
    measurement: Measurement | None, origin: str, algorithm: Algorithm
) -> list[tuple[str, str, str]]:
    """Label, value and comparison of the two measured cards: our kernel on a GPU, torch's fused attention on
    a CPU."""
    peer, whose = algorithm.timed_as
    ours = _result(measurement, (peer, "sdpa"), algorithm.direction)
    naive = _result(measurement, ("naive",), algorithm.direction)
    if ours is None or ours.timing is None or ours.peak_extra_bytes is None:
        refused = (ours.refused if ours else None) or "not measured"
        return [(f"{what} · {origin}", "–", refused) for what in ("Time", "Memory")]
    whose = "Torch " if ours.peer == "sdpa" else whose
    names = [f"{whose}{word}" if whose else word.capitalize() for word in ("time", "memory")]
    time_words = memory_words = f"naive {naive.refused if naive else 'not run'}"
    if naive and naive.timing and naive.peak_extra_bytes is not None:
        ratio = naive.timing.median_ms / ours.timing.median_ms
        time_words = _faster(ratio, f"naive {format_ms(naive.timing.median_ms)}")
        ratio = naive.peak_extra_bytes / max(ours.peak_extra_bytes, 1)
        memory_words = _against(ratio, f"naive {format_bytes(naive.peak_extra_bytes)}")
    return [
        (f"{names[0]} · {origin}", format_ms(ours.timing.median_ms), time_words),
        (f"{names[1]} · {origin}", format_bytes(ours.peak_extra_bytes), memory_words),
    ]


def _result(measurement: Measurement | None, names: tuple[str, ...], direction: str) -> PeerResult | None:
    results = (measurement.result(name, direction) for name in names) if measurement else ()
    return next((result for result in results if result), None)


def measurement_words(measurement: Measurement | None, run: Run) -> str:
    """Where the time and memory are from, and what they are not."""
    if measurement is None:
        return "Not measured for this problem."
    device = measurement.device
    if device.backend == "cuda":
        origin = f"**Recorded** {measurement.recorded_at[:10]}" if run.recorded else "**Measured** here"
        where = f"{device.name}, torch {device.torch}, Triton {device.triton}"
        return f"{origin} on {where}: median of device events, peers in turn, L2 flushed."
    interpreted = ""
    if run.seconds:
        took = format_ms(run.seconds * 1e3)
        interpreted = (
            f" Triton's interpreter took {took} to trace our kernel; that is not the speed of a kernel."
        )
    return (
        f"**Measured** here on {device.name}, in float32 (CPUs emulate float16 products): naive torch "
        f"against torch's own fused attention.{interpreted}"
    )
