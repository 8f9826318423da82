"""The four figures that are read first: error, bytes, time, memory."""

from __future__ import annotations

from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.device.clocks import METHODS
from kernels.measure.measurement import Measurement, PeerResult
from kernels.measure.peers import PEERS
from kernels.oracle.report import FACTORS, rule_words
from kernels.trace.algorithm import Algorithm
from viz.explore.comparisons import (
    Compared,
    bytes_with_standard,
    less_or_more,
    percentile_words,
    spread_words,
    time_with,
)
from viz.shared.formats import format_bytes, format_error, format_ms
from viz.shared.glossary import in_words
from viz.shared.provenance import library_versions, runner_words
from viz.shared.runs import Run

Color = Literal["green", "red", "off"]

REQUESTED = (
    "Bytes between the GPU's main memory (HBM) and its chip. Counted: what loads and stores asked for. "
    "Modelled for standard attention: the scores S and the weights P are written to HBM and read back (Dao "
    "et al. 2022, algorithm 0). Both are counted in the same tiles: what is read again counts again."
)


TIME, MEMORY = "Time of one call", "Extra memory"
CPU_PEER = "sdpa"
ON_CPU = "Torch's fused attention, as a CPU times no kernel"
EXTRA = "The most memory that the call needed at a time, beyond its inputs."


def four_figures(run: Run, measurement: Measurement | None, other: Run | None = None) -> None:
    """One row of cards; a figure that was not measured says so.

    Beside a second run, B, the cards are about A, and compare its bytes with B's.
    """
    row = st.container(horizontal=True, gap="small", key="figures")
    mark = "A: " if other else ""
    judged = "measured" if run.judged_here else run.origin
    _error_card(row, f"{mark}Largest error of the result · {judged}", run)
    ours = run.traffic.total
    compared = bytes_with_standard(run)
    if other:
        rival = other.traffic.total
        compared = Compared(less_or_more(rival / ours, f"B {format_bytes(rival)}"))
    explained = f"{_requested_words(run)} {compared.explained}".strip()
    _card(row, f"{mark}Bytes moved · {_how_known(run)}", format_bytes(ours), compared.words, explained)
    explained = measurement_words(measurement, run)
    for label, value, words, added in _time_and_memory(measurement, run):
        of_a = label.startswith((TIME, MEMORY))  # else it names what was timed, of neither run
        _card(row, f"{mark if of_a else ''}{label}", value, words, f"{explained} {added}".strip())


def _how_known(run: Run) -> str:
    return "modelled" if run.traffic.modelled else "counted"


def _requested_words(run: Run) -> str:
    """What the bytes are. Those of a sampled run are modelled, and the sample has counted some of them."""
    if run.trace.sample is None:
        return REQUESTED
    counted = format_bytes(run.trace.total_bytes)
    traced = f"A sample was traced, {run.trace.sample.words(run.trace.problem)}: {counted} were counted there"
    if run.traffic.agrees is None:
        return f"Modelled: heads are alike. {traced}; the whole run has that for each of its heads."
    gives = "the formula gives exactly that" if run.traffic.agrees else "the formula does NOT give that"
    return f"Modelled: a formula of the bytes that all loads and stores ask for. {traced}, and {gives}."


def _error_card(row: DeltaGenerator, label: str, run: Run) -> None:
    report = run.report
    if report is None:
        _card(row, label, "–", "not known", "The error of a file is computed from its output.")
        return
    allowed = f"{'passes' if report.passes else 'FAILS'}: allowed {format_error(report.tolerance)}"
    allowed += " (sampled rows)" if run.trace.sample else ""
    accepted = rule_words(FACTORS[run.algorithm.direction])
    rule = "The algorithm is exact; its numbers are rounded. Shown is the largest difference from the same "
    rule += f"computed in float64. {accepted}"
    color: Color = "green" if report.passes else "red"
    _card(row, label, format_error(report.max_error), allowed, rule, color=color)


def _card(
    row: DeltaGenerator, label: str, value: str, comparison: str, explained: str, color: Color = "off"
) -> None:
    row.metric(label, value, comparison, delta_color=color, delta_arrow="off", help=explained, border=True)


def _time_and_memory(measurement: Measurement | None, run: Run) -> list[tuple[str, str, str, str]]:
    """Label, value, comparison and further help of the two measured cards.

    A label names what was timed, if it is not the algorithm as it is played. The time of another algorithm is
    not shown as this one's, but beside "not timed".
    """
    timed = run.algorithm.timed_as
    ours = _result(measurement, (timed.peer, CPU_PEER), run.algorithm.direction)
    if measurement is None or ours is None or ours.timing is None or ours.peak_extra_bytes is None:
        refused = (ours.refused if ours else None) or "not measured yet"
        return [(f"{what} · {run.origin}", "–", refused, "") for what in (TIME, MEMORY)]
    time, memory = spread_words(ours), format_bytes(ours.peak_extra_bytes)
    on_cpu = ours.peer == CPU_PEER
    if timed.is_another and not on_cpu:
        words = f"{timed.whose}, {run.origin}"
        return [
            (TIME, "not timed", f"{words}: {time}", f"{timed.why} {percentile_words(ours)}"),
            (MEMORY, "not measured", f"{words}: {memory}", f"{timed.why} {EXTRA}"),
        ]
    whose = ON_CPU if on_cpu else timed.whose
    names = [f"{whose}: {what.lower()}" if whose else what for what in (TIME, MEMORY)]
    rival, called = _rival(measurement, ours)
    time_words = time_with(measurement, ours, rival, called)
    memory_words = time_words.words
    if rival and rival.timing and rival.peak_extra_bytes is not None:
        ratio = rival.peak_extra_bytes / max(ours.peak_extra_bytes, 1)
        memory_words = less_or_more(ratio, f"{called} {format_bytes(rival.peak_extra_bytes)}")
    why = "" if on_cpu else timed.why
    spread = f"{why} {percentile_words(ours)} {time_words.explained}".strip()
    return [
        (f"{names[0]} · {run.origin}", time, time_words.words, spread),
        (f"{names[1]} · {run.origin}", memory, memory_words, f"{why} {EXTRA}".strip()),
    ]


def timed_words(measurement: Measurement, algorithm: Algorithm) -> str:
    """What the charts of times have in place of the algorithm as it is played; "" if it is among them."""
    timed = algorithm.timed_as
    if not timed.whose or _result(measurement, (timed.peer,), algorithm.direction) is None:
        return ""
    bar = f"“{PEERS[timed.peer].label}”"
    stands = f"{bar} is {timed.whose}." if timed.is_another else f"Its bar is {bar}."
    return f"**{algorithm.label}**: {timed.why} {stands}"


def _rival(measurement: Measurement, ours: PeerResult) -> tuple[PeerResult | None, str]:
    """What a time is compared with, and its name: naive attention, or a fused one if naive is timed."""
    if ours.peer != "naive":
        return _result(measurement, ("naive",), ours.direction), "naive"
    rival = _result(measurement, ("flash2", CPU_PEER), ours.direction)
    return rival, "torch's fused" if rival and rival.peer == CPU_PEER else "FlashAttention-2"


def _result(measurement: Measurement | None, names: tuple[str, ...], direction: str) -> PeerResult | None:
    results = (measurement.result(name, direction) for name in names) if measurement else ()
    return next((result for result in results if result), None)


def measurement_words(measurement: Measurement | None, run: Run) -> str:
    """Where the time and memory are from, and what they are not."""
    if measurement is None:
        return "Not measured for this problem yet."
    device = measurement.device
    if device.backend == "cuda":
        origin = f"**Recorded** {measurement.recorded_at[:10]}" if run.recorded else "**Measured** here"
        how = f"{library_versions(device)}: {METHODS['cuda']}"
        return f"{origin} on {device.name}, {how}. {in_words('naive attention')}"
    traced = ""
    if run.seconds:
        how = runner_words(run.algorithm, run.trace.device)
        took = format_ms(run.seconds * 1e3)
        traced = f" To trace {run.algorithm.label} {how} took {took}; that is not the speed of a kernel."
    return (
        f"**Measured** here on {device.name}, in float32 (CPUs emulate float16 products): naive torch "
        f"against torch's own fused attention. {METHODS['interpreter'].capitalize()}.{traced} "
        f"{in_words('naive attention')}"
    )
