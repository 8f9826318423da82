"""Clocks, power, temperature and throttling of a GPU while something is measured, read by NVIDIA's NVML."""

import contextlib
import statistics
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pynvml

EVERY_S = 0.25
LAST_READING_S = 1.0
"""At its end, a measurement waits at most this many seconds for a reading that has begun."""
SLOWDOWNS = {
    pynvml.nvmlClocksEventReasonSwPowerCap: "power limit",
    pynvml.nvmlClocksEventReasonHwSlowdown: "hardware slowdown",
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: "temperature",
    pynvml.nvmlClocksEventReasonHwThermalSlowdown: "temperature (hardware)",
    pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "power brake",
}
"""NVML's reasons why the clock is slower than requested. Its other reasons, such as a clock that the user
set, are not slowdowns."""


class GpuReading(NamedTuple):
    """One reading. Clocks in MHz, power in W, temperature in degrees Celsius."""

    sm_mhz: float
    sm_mhz_max: float
    power_w: float
    temperature_c: float
    reasons: int
    """Sum of NVML's nvmlClocksEventReason constants that apply."""


@dataclass(frozen=True)
class GpuState:
    """The readings of a measurement in which the GPU was busy. Units as in GpuReading."""

    sm_mhz_low: float
    sm_mhz_median: float
    sm_mhz_max: float
    """The highest clock that the GPU allows."""
    power_w: float
    """Highest reading, as that of temperature."""
    temperature_c: float
    slowed_by: tuple[str, ...]
    samples: int


def torch_gpu_uuid() -> str:
    """UUID of torch's current GPU. CUDA_VISIBLE_DEVICES changes torch's indices, but not those of NVML."""
    import torch

    return str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)


@contextlib.contextmanager
def watch_gpu(uuid: str | None, nvml: Any = pynvml) -> Iterator[list[GpuReading]]:
    """Collect readings of a GPU in a thread while the body runs; `summarise` turns them into a GpuState.

    There are none if `uuid` is None or NVML cannot read this GPU. The body neither waits for NVML nor fails
    with it. `nvml` is pynvml, which has no types, or a stand-in for it.
    """
    readings: list[GpuReading] = []
    if uuid is None:
        yield readings
        return
    stop = threading.Event()

    def poll() -> None:
        """Read the GPU every EVERY_S seconds, at least once, until the body ends or NVML fails."""
        with contextlib.suppress(nvml.NVMLError), _nvml_session(nvml):
            gpu = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
            while not readings or not stop.wait(EVERY_S):
                mhz = float(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM))
                highest = float(nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM))
                watts = nvml.nvmlDeviceGetPowerUsage(gpu) / 1e3
                celsius = float(nvml.nvmlDeviceGetTemperatureV(gpu, nvml.NVML_TEMPERATURE_GPU))
                reasons = nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)
                readings.append(GpuReading(mhz, highest, watts, celsius, reasons))

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield readings
    finally:
        stop.set()
        thread.join(LAST_READING_S)


@contextlib.contextmanager
def _nvml_session(nvml: Any) -> Iterator[None]:
    nvml.nvmlInit()
    try:
        yield
    finally:
        nvml.nvmlShutdown()


def driver_version(nvml: Any = pynvml) -> str | None:
    """Version of the NVIDIA driver, "580.159.04"; None if NVML is not there. `nvml` as in `watch_gpu`."""
    with contextlib.suppress(nvml.NVMLError), _nvml_session(nvml):
        return nvml.nvmlSystemGetDriverVersion()
    return None


def summarise(readings: list[GpuReading]) -> GpuState | None:
    """The readings in which the GPU was not idle, summarised; None if there are none."""
    busy = [reading for reading in readings if not reading.reasons & pynvml.nvmlClocksEventReasonGpuIdle]
    if not busy:
        return None
    clocks, highest, watts, celsius, reasons = zip(*busy, strict=True)
    slowed_by = tuple(words for bit, words in SLOWDOWNS.items() if any(each & bit for each in reasons))
    of_clock = (min(clocks), statistics.median(clocks), max(highest))
    return GpuState(*of_clock, max(watts), max(celsius), slowed_by, len(busy))


def clock_words(states: Iterable[GpuState]) -> str:
    """One line on the clocks of several measurements and on what slowed the GPU; "" if there are none."""
    states = list(states)
    if not states:
        return ""
    low, high = min(state.sm_mhz_low for state in states), max(state.sm_mhz_median for state in states)
    power, celsius = max(state.power_w for state in states), max(state.temperature_c for state in states)
    slowed = [state for state in states if state.slowed_by]
    reasons = sorted({reason for state in slowed for reason in state.slowed_by})
    by = f" by: {', '.join(reasons)}" if reasons else ""
    return (
        f"SM clock {low:,.0f} to {high:,.0f} MHz of {states[0].sm_mhz_max:,.0f}, up to {power:.0f} W and "
        f"{celsius:.0f} °C, as the driver reported. Slowed down in {len(slowed)} of {len(states)} points{by}."
    )
