"""Clocks, power and throttling of the GPU while something is measured, as nvidia-smi reports them."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import subprocess
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

EVERY_S = 0.25
QUERY = ("clocks.sm", "clocks.max.sm", "power.draw", "temperature.gpu", "clocks_event_reasons.active")
IDLE = 0x1
REASONS = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x20: "temperature",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}
"""Bits of nvidia-smi's clocks_event_reasons.active that mean a clock below the one asked for."""


@dataclass(frozen=True)
class GpuState:
    """What nvidia-smi said while the GPU was busy. Clocks in MHz, power in W, temperature in degrees Celsius."""

    sm_mhz_low: float
    sm_mhz_median: float
    sm_mhz_max: float
    """The highest clock that the GPU allows."""
    power_w: float
    """Highest reading."""
    temperature_c: float
    """Highest reading."""
    slowed_by: tuple[str, ...]
    samples: int


@contextlib.contextmanager
def watch_gpu(enabled: bool) -> Iterator[list[tuple]]:
    """Collect readings while the body runs; `summarise` turns them into a GpuState. Nothing where nvidia-smi is missing."""
    readings: list[tuple] = []
    if not enabled or shutil.which("nvidia-smi") is None:
        yield readings
        return
    stop = threading.Event()

    def poll() -> None:
        while (reading := _read()) is not None:
            readings.append(reading)
            if stop.wait(EVERY_S):
                return

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield readings
    finally:
        stop.set()
        thread.join(5)


def _read() -> tuple | None:
    command = ["nvidia-smi", "--id=0", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout
        return parse_reading(said)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def parse_reading(line: str) -> tuple[float, float, float, float, int]:
    """One line of nvidia-smi: "1980, 1980, 412.07, 41, 0x0000000000000004". Raises ValueError for anything else."""
    *numbers, reasons = (part.strip() for part in line.strip().split(","))
    sm, highest, power, temperature = (float(number) for number in numbers)
    return sm, highest, power, temperature, int(reasons, 16)


def summarise(readings: list[tuple]) -> GpuState | None:
    """Over the readings in which the GPU was not idle; None without any."""
    busy = [reading for reading in readings if not reading[4] & IDLE]
    if not busy:
        return None
    clocks = [reading[0] for reading in busy]
    active = 0
    for reading in busy:
        active |= reading[4]
    slowed = tuple(words for bit, words in REASONS.items() if active & bit)
    highest = (max(reading[index] for reading in busy) for index in (1, 2, 3))
    return GpuState(min(clocks), statistics.median(clocks), *highest, slowed, len(busy))


def clock_words(measurements: Iterable[object]) -> str:
    """One line on the clocks of all measurements that noted them, and on what slowed the GPU; empty where none did."""
    states = [measurement.gpu for measurement in measurements if measurement.gpu is not None]
    if not states:
        return ""
    low, high = min(state.sm_mhz_low for state in states), max(state.sm_mhz_median for state in states)
    words = f"SM clock {low:,.0f} to {high:,.0f} MHz of {states[0].sm_mhz_max:,.0f}, up to {max(state.power_w for state in states):.0f} W "
    words += f"and {max(state.temperature_c for state in states):.0f} °C (nvidia-smi)."
    slowed = [state for state in states if state.slowed_by]
    if not slowed:
        return f"{words} Never slowed."
    reasons = ", ".join(sorted({reason for state in slowed for reason in state.slowed_by}))
    return f"{words} Slowed in {len(slowed)} of {len(states)} points by: {reasons}."
