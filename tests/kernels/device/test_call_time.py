"""Call time: what the host takes and what the clock takes, on a machine made by hand."""

import pytest

from kernels.device.call_time import CALLS_IN_A_ROW, FEWEST_CALLS, ROUNDS, time_calls


class Machine:
    """A host that queues work on a device; both have the same clock."""

    def __init__(self, host_ms, device_ms):
        self.host_ms, self.device_ms = host_ms, device_ms
        self.now_ms = self.busy_until_ms = 0.0
        self.calls = 0

    def call(self):
        self.calls += 1
        self.now_ms += self.host_ms
        self.busy_until_ms = max(self.busy_until_ms, self.now_ms) + self.device_ms

    def synchronize(self):
        self.now_ms = max(self.now_ms, self.busy_until_ms)

    def time(self):
        return time_calls(self.call, self.synchronize, lambda: self.now_ms / 1e3)


def test_a_short_kernel_takes_as_long_as_the_host():
    time = Machine(host_ms=0.04, device_ms=0.01).time()
    assert time.host_ms == pytest.approx(0.04)
    assert time.wall_ms == pytest.approx(0.04, rel=0.02)


def test_a_long_kernel_leaves_the_host_free():
    time = Machine(host_ms=0.04, device_ms=1.0).time()
    assert time.host_ms == pytest.approx(0.04)
    assert time.wall_ms == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize(("device_ms", "in_a_row"), [(0.1, CALLS_IN_A_ROW), (5.0, 9), (400.0, FEWEST_CALLS)])
def test_long_calls_are_made_less_often(device_ms, in_a_row):
    machine = Machine(host_ms=0.04, device_ms=device_ms)
    machine.time()
    assert machine.calls == 1 + ROUNDS * in_a_row
