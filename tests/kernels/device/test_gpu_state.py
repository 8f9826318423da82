"""Clocks and throttling of a GPU, read through a stand-in for pynvml."""

import contextlib
import threading
from types import SimpleNamespace

import pynvml
import pytest

from kernels.device.gpu_state import (
    GpuReading,
    driver_version,
    summarise,
    torch_gpu_uuid,
    watch_gpu,
)

pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
UUID = "21130ca3-506c-54b2-d1ae-9f9c3affc007"


def fake_nvml(failing=""):
    """The functions of pynvml that are used, for one GPU; the one named `failing` raises NVMLError."""
    clock, celsius, slowed = ("the GPU", 1), ("the GPU", 2), pynvml.nvmlClocksEventReasonSwPowerCap
    nvml = SimpleNamespace(
        NVMLError=pynvml.NVMLError,
        NVML_CLOCK_SM=1,
        NVML_TEMPERATURE_GPU=2,
        nvmlInit=lambda: nvml.sessions.append(1),
        nvmlShutdown=lambda: nvml.sessions.append(-1),
        nvmlSystemGetDriverVersion=lambda: "580.159.04",
        nvmlDeviceGetHandleByUUID={f"GPU-{UUID}": "the GPU"}.__getitem__,
        nvmlDeviceGetClockInfo=lambda *of: {clock: 1755}[of],
        nvmlDeviceGetMaxClockInfo=lambda *of: {clock: 1980}[of],
        nvmlDeviceGetPowerUsage={"the GPU": 690_250}.__getitem__,
        nvmlDeviceGetTemperatureV=lambda *of: {celsius: 51}[of],
        nvmlDeviceGetCurrentClocksEventReasons=lambda gpu: nvml.read.set() or slowed,
        sessions=[],
        read=threading.Event(),
    )

    def fail(*arguments):
        nvml.read.set()
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    nvml.__dict__.update({failing: fail})
    return nvml


def watch(nvml):
    """Readings taken while the body waits until NVML was asked."""
    with watch_gpu(UUID, nvml) as readings:
        assert nvml.read.wait(10)
    return readings


READING = GpuReading(1755.0, 1980.0, 690.25, 51.0, pynvml.nvmlClocksEventReasonSwPowerCap)


@pytest.mark.parametrize("failing", ["", "nvmlInit", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetPowerUsage"])
def test_the_gpu_of_that_uuid_is_read_in_mhz_watts_and_degrees_unless_nvml_cannot(failing):
    nvml = fake_nvml(failing)
    assert watch(nvml)[:1] == ([] if failing else [READING])
    assert sum(nvml.sessions) == 0


def test_a_measurement_that_fails_ends_the_readings():
    nvml = fake_nvml()
    with contextlib.suppress(ZeroDivisionError), watch_gpu(UUID, nvml):
        assert nvml.read.wait(10)
        raise ZeroDivisionError  # of the measurement
    assert sum(nvml.sessions) == 0


def test_nvml_that_hangs_does_not_hold_up_the_measurement(monkeypatch):
    monkeypatch.setattr("kernels.device.gpu_state.LAST_READING_S", 0.01)
    nvml, done = fake_nvml(), threading.Event()
    nvml.nvmlInit = done.wait
    with watch_gpu(UUID, nvml) as readings:
        pass
    assert readings == []
    done.set()


def test_without_a_gpu_or_its_driver_nothing_is_read():
    nvml = fake_nvml("nvmlInit")
    with watch_gpu(None, nvml) as readings:
        pass
    assert readings == []
    assert not nvml.read.is_set()
    assert driver_version(nvml) is None
    assert driver_version(fake_nvml("nvmlSystemGetDriverVersion")) is None
    assert driver_version(fake_nvml()) == "580.159.04"


@pytest.mark.gpu
def test_torch_and_nvml_mean_the_same_gpu():
    import torch

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch_gpu_uuid()}")
    assert pynvml.nvmlDeviceGetName(handle) == torch.cuda.get_device_name()
    pynvml.nvmlShutdown()


def test_idle_readings_are_left_out_of_the_summary():
    slow = pynvml.nvmlClocksEventReasonSwPowerCap | pynvml.nvmlClocksEventReasonSwThermalSlowdown
    user_clock = pynvml.nvmlClocksEventReasonApplicationsClocksSetting
    idle = GpuReading(345.0, 1980.0, 90.0, 30.0, pynvml.nvmlClocksEventReasonGpuIdle)
    busy = GpuReading(1980.0, 1980.0, 600.0, 50.0, user_clock)
    state = summarise([idle, busy, GpuReading(1700.0, 1980.0, 690.0, 55.0, slow)])
    assert (state.sm_mhz_low, state.sm_mhz_median, state.sm_mhz_max) == (1700, 1840, 1980)
    assert (state.power_w, state.temperature_c, state.samples) == (690, 55, 2)
    assert state.slowed_by == ("power limit", "temperature")
    assert summarise([busy]).slowed_by == ()
    assert summarise([idle]) is None
