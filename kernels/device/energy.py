"""Energy of a call that is repeated without a pause, by the counter of the GPU's driver (NVML)."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

import pynvml

from kernels.file_format import Amount, Milliseconds

REST_S, SETTLE_S, SUSTAINED_S = 0.7, 0.7, 1.6
"""Seconds at rest, for the idle power; of calls until the clock has settled; and of the calls that count."""
BATCH_S = 0.02
"""Seconds of calls between two readings."""
PARTS = 4
"""Parts of the time whose energies give the spread."""


@dataclass(frozen=True)
class Sustained:
    """One of many calls without a pause: its time and energy. Power and clock are means over the calls."""

    ms: Milliseconds
    joules: Amount
    """Without what the GPU takes at rest."""
    low_joules: Amount
    high_joules: Amount
    """Of parts of the time, the lowest and the highest."""
    power_w: Amount
    idle_w: Amount
    sm_mhz: Amount

    def then(self, other: "Sustained") -> "Sustained":
        """One call of this and one of the other."""
        pairs = [*zip(astuple(self), astuple(other), strict=True)]
        ms, *joules = (one + two for one, two in pairs[:4])
        means = ((self.ms * one + other.ms * two) / ms for one, two in pairs[4:])
        return Sustained(ms, *joules, *means)


class Reading(NamedTuple):
    """Seconds by the host's clock, joules by the driver's counter, calls that have ended, MHz."""

    at_s: float
    joules: float
    calls: int
    sm_mhz: float


class Meter:
    """Counts the energy of one GPU. Made while it is at rest."""

    def __init__(self, uuid: str, nvml: Any = pynvml) -> None:
        """`nvml` is pynvml or a stand-in for it. Raises NVMLError if the driver does not count energy."""
        nvml.nvmlInit()  # NVML counts its users; the process keeps it
        self._nvml, self._gpu = nvml, nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        self.idle_w = self._idle_watts()

    def read(self, calls: int) -> Reading:
        joules = self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._gpu) / 1e3
        mhz = float(self._nvml.nvmlDeviceGetClockInfo(self._gpu, self._nvml.NVML_CLOCK_SM))
        return Reading(time.perf_counter(), joules, calls, mhz)

    def _idle_watts(self) -> float:
        """Power of the GPU at rest."""
        time.sleep(REST_S / 2)
        readings = [self.read(0)]
        while readings[-1].at_s < readings[0].at_s + REST_S:
            time.sleep(BATCH_S / 4)
            readings.append(self.read(0))
        return _watts(_steps(readings))

    def sustain(self, call: Callable[[], object], mark: Callable[[], Any]) -> Sustained:
        """Repeat the call. `mark` marks the work queued so far; its `synchronize` waits for that."""
        readings = []
        for reading in self._repeated(call, mark):
            readings.append(reading)
            if reading.at_s >= readings[0].at_s + SETTLE_S + SUSTAINED_S:
                break
        settled = readings[0].at_s + SETTLE_S
        return summarise([each for each in readings if each.at_s >= settled], self.idle_w)

    def _repeated(self, call: Callable[[], object], mark: Callable[[], Any]) -> Iterator[Reading]:
        """A reading per batch, while the next batch already runs."""

        def queue(count: int) -> Any:
            for _ in range(count):
                call()
            return mark()

        queue(1).synchronize()
        began = time.perf_counter()
        queue(1).synchronize()
        count = max(1, int(BATCH_S / max(time.perf_counter() - began, 1e-6)))
        running = queue(count)
        for batch in itertools.count(1):
            queued = queue(count)
            running.synchronize()
            yield self.read(batch * count)
            running = queued


def summarise(readings: list[Reading], idle_w: float) -> Sustained:
    """Time, energy and their spread of calls between the readings."""
    first, last = readings[0], readings[-1]
    seconds = (last.at_s - first.at_s) / (last.calls - first.calls)
    steps = _steps(readings)
    length = max(1, (len(steps) - 1) // PARTS)
    parts = (steps[at : at + length + 1] for at in range(0, PARTS * length, length))
    joules = [max(0.0, _watts(part) - idle_w) * seconds for part in parts if part[1:]]
    watts = _watts(steps)
    mhz = sum(each.sm_mhz for each in readings) / len(readings)
    mean = max(0.0, watts - idle_w) * seconds
    return Sustained(1e3 * seconds, mean, min(joules), max(joules), watts, idle_w, mhz)


def _steps(readings: list[Reading]) -> list[Reading]:
    """The readings at which the counter had just been brought up to date, which it is in steps."""
    changed = [after for before, after in itertools.pairwise(readings) if after.joules != before.joules]
    return changed if len(changed) > 1 else [readings[0], readings[-1]]


def _watts(steps: list[Reading]) -> float:
    return (steps[-1].joules - steps[0].joules) / (steps[-1].at_s - steps[0].at_s)
