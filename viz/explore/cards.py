"""The four figures one reads first: error, bytes, time, memory."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.measure.measurement import Measurement, PeerResult
from kernels.traffic.modelled import backward_standard_bytes, standard_bytes
from viz.shared import runs, theme
from viz.shared.runs import Run

RULE = (
    "FlashAttention's own rule: the largest error against float64 may be at most twice the error of naive attention in the same type, "
    "plus twice the rounding of values of this size."
)
REQUESTED = (
    "Counted: bytes that the kernel's loads and stores asked for. Modelled for standard attention: S and P written to HBM and read back "
    "(Dao et al. 2022, algorithm 0)."
)


def four_figures(run: Run, measurement: Measurement | None, other: Run | None = None) -> None:
    """One row of cards; a figure that nobody measured says so. Beside a second run, B, they are about A, and its bytes against B's."""
    row = st.container(horizontal=True, gap="small", key="figures")
    origin = "recorded" if run.recorded else "measured"
    report = run.report
    verdict = "passes" if report.passes else "FAILS"
    allowed = f"{verdict}: allowed {theme.format_error(report.tolerance)}"
    mark = "A: " if other else ""
    _card(
        row,
        f"{mark}Error · {origin}",
        theme.format_error(report.max_error),
        allowed,
        RULE,
        color="green" if report.passes else "red",
    )
    backward = runs.direction(run.trace.algorithm) == "backward"
    ours, standard = (
        run.trace.total_bytes,
        (backward_standard_bytes if backward else standard_bytes)(run.trace.problem),
    )
    rival, whose = (
        (other.trace.total_bytes, "B")
        if other
        else (standard, "modelled" if run.trace.algorithm == "standard" else "standard")
    )
    _card(
        row,
        f"{mark}Bytes · counted",
        theme.format_bytes(ours),
        _against(rival / ours, f"{whose} {theme.format_bytes(rival)}"),
        REQUESTED,
    )
    explained = measurement_words(measurement, run)
    for words in _time_and_memory(measurement, origin, run.trace.algorithm):
        _card(row, f"{mark}{words[0]}", *words[1:], explained)


def _card(
    row: DeltaGenerator, label: str, value: str, comparison: str, explained: str, color: str = "off"
) -> None:
    row.metric(label, value, comparison, delta_color=color, delta_arrow="off", help=explained, border=True)


def _against(ratio: float, words: str) -> str:
    return (
        f"{theme.format_ratio(ratio)} less: {words}"
        if ratio >= 1
        else f"{theme.format_ratio(1 / ratio)} more: {words}"
    )


def _faster(ratio: float, words: str) -> str:
    if 0.95 < ratio < 1.05:
        return f"about the same: {words}"
    return (
        f"{theme.format_ratio(ratio)} faster: {words}"
        if ratio > 1
        else f"{theme.format_ratio(1 / ratio)} slower: {words}"
    )


MEASURED_AS = {
    "flash2": ("flash2", ""),
    "split_kv": ("ours", ""),
    "backward": ("ours", ""),
    "backward_q_outer": ("ours", "FA-2 "),
}
"""The peer whose time stands beside an algorithm on a GPU, and whose it is. The algorithms that are kept for comparison are not timed."""


def _time_and_memory(
    measurement: Measurement | None, origin: str, algorithm: str
) -> list[tuple[str, str, str]]:
    """Label, value and comparison of the two measured cards: our kernel on a GPU, torch's fused attention on a CPU."""
    peer, whose = MEASURED_AS.get(algorithm, ("flash2", "FA-2 "))
    direction = runs.direction(algorithm)
    ours, naive = _result(measurement, (peer, "sdpa"), direction), _result(measurement, ("naive",), direction)
    if ours is None or ours.timing is None:
        return [
            (f"{what} · {origin}", "–", ours.refused if ours else "not measured")
            for what in ("Time", "Memory")
        ]
    whose = "Torch " if ours.peer == "sdpa" else whose
    what = [f"{whose}{word}".capitalize() if not whose else f"{whose}{word}" for word in ("time", "memory")]
    time_words = memory_words = f"naive {naive.refused if naive else 'not run'}"
    if naive and naive.timing:
        time_words = _faster(
            naive.timing.median_ms / ours.timing.median_ms, f"naive {theme.format_ms(naive.timing.median_ms)}"
        )
        memory_words = _against(
            naive.peak_extra_bytes / max(ours.peak_extra_bytes, 1),
            f"naive {theme.format_bytes(naive.peak_extra_bytes)}",
        )
    return [
        (f"{what[0]} · {origin}", theme.format_ms(ours.timing.median_ms), time_words),
        (f"{what[1]} · {origin}", theme.format_bytes(ours.peak_extra_bytes), memory_words),
    ]


def _result(measurement: Measurement | None, names: tuple[str, ...], direction: str) -> PeerResult | None:
    found = (measurement.result(name, direction) for name in names) if measurement else ()
    return next((result for result in found if result), None)


def measurement_words(measurement: Measurement | None, run: Run) -> str:
    """Where the time and memory are from, and what they are not."""
    if measurement is None:
        return "Not measured for this problem."
    device = measurement.device
    if device.backend == "cuda":
        origin = f"**Recorded** {measurement.recorded_at[:10]}" if run.recorded else "**Measured** here"
        return f"{origin} on {device.name}, torch {device.torch}, Triton {device.triton}: median of device events, peers in turn, L2 flushed."
    interpreted = (
        f" Triton's interpreter took {theme.format_ms(run.seconds * 1e3)} to trace our kernel: no speed of a kernel."
        if run.seconds
        else ""
    )
    return (
        f"**Measured** here on {device.name}, in float32 (CPUs emulate float16 products): naive torch against torch's own fused attention."
        + interpreted
    )
