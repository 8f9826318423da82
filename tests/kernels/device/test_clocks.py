"""Timings: their percentiles and spread, and calls that take turns."""

import pytest

from kernels.device import clocks
from kernels.device.clocks import CpuClock, Timing


class CountingClock(CpuClock):
    """A clock that believes the calls: each returns its name and its milliseconds."""

    def __init__(self):
        self.order = []

    def sample_ms(self, call):
        name, milliseconds = call()
        self.order.append(name)
        return milliseconds


def test_a_wide_spread_is_known():
    assert Timing(1.0, 0.9, 1.3, 9).is_wide
    assert not Timing(1.0, 0.95, 1.05, 9).is_wide


def test_calls_take_turns_until_each_has_used_its_budget():
    clock = CountingClock()
    slow, fast = (lambda: ("slow", 50.0)), (lambda: ("fast", 1.0))
    timings = clock.time_in_turn({"slow": slow, "fast": fast}, budget_s=0.01)
    assert timings["slow"].samples == clocks.MIN_SAMPLES
    assert timings["fast"].samples == 11
    assert clock.order == ["slow", "fast"] * 5 + ["fast"] * 6


def test_a_fast_call_is_sampled_a_limited_number_of_times():
    timing = CountingClock().time_in_turn({"no time": lambda: ("no time", 0.0)})["no time"]
    assert timing.samples == clocks.MAX_SAMPLES


def test_a_timing_has_the_median_and_the_outer_percentiles():
    samples = iter(float(ms) for ms in (11, 1, 10, 2, 9, 3, 8, 4, 7, 5, 6))
    timing = CountingClock().time_in_turn({0: lambda: (0, next(samples))}, budget_s=0.0655)[0]
    assert timing == Timing(6.0, 2.0, 10.0, 11)


@pytest.mark.parametrize(
    ("backend", "device"), [("interpreter", "cpu"), pytest.param("cuda", "cuda", marks=pytest.mark.gpu)]
)
def test_each_backend_has_its_clock(backend, device):
    assert clocks.clock_for(backend).device == device
