"""Roofs of a device, and measured calls under them."""

import pytest

from kernels.measure.roofline import counter_points, roofs, timed_points
from tests.kernels.documents import DEVICE, counter_run, document, measurement


def test_points_lie_at_their_bytes_and_under_the_roof_of_their_device():
    counted, dram = counter_points([counter_run()])
    flops = 4 * 16 * 4096**2 * 64
    assert (counted.bytes_are, dram.bytes_are) == ("counted", "DRAM")
    by_tensors, _ = counter_points([counter_run("naive")])
    assert by_tensors.bytes_are == "operations"
    assert counted.intensity == pytest.approx(flops / 600e6)
    assert dram.intensity == pytest.approx(flops / 60e6)
    assert counted.flops_per_s == pytest.approx(flops / 1e-3)
    measured, datasheet = roofs(document().ceilings, DEVICE, "float16")
    assert (measured.bytes_per_s, measured.flops_per_s) == pytest.approx((4e12, 6e14))
    assert measured.attainable(1.0) == pytest.approx(4e12)
    assert datasheet.label == "datasheet of the H200 SXM"


def test_timed_points_say_that_their_bytes_are_modelled():
    naive, ours = timed_points(measurement(1024), ("forward",))
    assert {naive.bytes_are, ours.bytes_are} == {"modelled"}
    assert naive.intensity < ours.intensity
    assert timed_points(measurement(1024), ("backward",)) == []
