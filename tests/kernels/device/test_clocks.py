"""Timings: their spread."""

from kernels.device.clocks import Timing


def test_a_wide_spread_is_known():
    assert Timing(1.0, 0.9, 1.3, 9).is_wide
    assert not Timing(1.0, 0.95, 1.05, 9).is_wide
