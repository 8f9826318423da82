"""Energy of a repeated call, from a counter that is brought up to date in steps."""

from types import SimpleNamespace

import pynvml
import pytest

from kernels.device import energy
from kernels.device.energy import Meter, Reading, summarise

IDLE_W, BUSY_W, CALL_S, STEP_S = 100.0, 600.0, 0.003, 0.05


class World:
    """A host clock and a GPU that takes IDLE_W at rest and BUSY_W while calls run one after the other."""

    def __init__(self):
        self.now = self.busy_until = self.joules = 0.0

        self.counted = self.counted_at = 0.0
        self.nvml = SimpleNamespace(
            NVML_CLOCK_SM=1,
            nvmlInit=lambda: None,
            nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
            nvmlDeviceGetClockInfo=lambda gpu, which: 1600,
            nvmlDeviceGetTotalEnergyConsumption=lambda gpu: self.sleep(0.001) or int(1e3 * self.counted),
        )

    def sleep(self, seconds):
        """Time passes, in parts: what was used is counted every STEP_S."""
        end = self.now + seconds
        while self.now < end:
            step = min(1e-3, end - self.now)
            self.joules += step * (BUSY_W if self.now < self.busy_until else IDLE_W)
            self.now += step
            if self.now - self.counted_at >= STEP_S:
                self.counted, self.counted_at = self.joules, self.now

    def call(self):
        self.busy_until = max(self.busy_until, self.now) + CALL_S

    def mark(self):
        until = self.busy_until
        return SimpleNamespace(synchronize=lambda: self.sleep(max(0.0, until - self.now)))


@pytest.fixture
def world(monkeypatch):
    world = World()
    monkeypatch.setattr(energy, "time", SimpleNamespace(perf_counter=lambda: world.now, sleep=world.sleep))
    return world


def test_a_call_costs_its_time_times_the_power_above_that_at_rest(world):
    meter = Meter("uuid", world.nvml)
    found = meter.sustain(world.call, world.mark)
    assert meter.idle_w == pytest.approx(IDLE_W, rel=0.02)
    assert found.ms == pytest.approx(1e3 * CALL_S, rel=0.01)
    assert found.joules == pytest.approx((BUSY_W - IDLE_W) * CALL_S, rel=0.02)
    assert found.low_joules <= found.joules <= found.high_joules
    assert (found.power_w, found.sm_mhz) == (pytest.approx(BUSY_W, rel=0.02), 1600)


def test_the_spread_is_that_of_parts_of_the_time():
    watts = [500] * 20 + [600] * 60 + [0] * 3  # what is left of four equal parts is too short to count
    joules = [sum(watts[:at]) * 0.02 for at in range(len(watts) + 1)]
    found = summarise([Reading(0.02 * at, j, at, 1.0) for at, j in enumerate(joules)], 100.0)
    assert found.low_joules == pytest.approx(400 * 0.02)
    assert found.high_joules == pytest.approx(500 * 0.02)


def test_a_driver_that_counts_no_energy_is_an_error_of_nvml(world):
    def refuses(gpu):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    world.nvml.nvmlDeviceGetTotalEnergyConsumption = refuses
    with pytest.raises(pynvml.NVMLError):
        Meter("uuid", world.nvml)
