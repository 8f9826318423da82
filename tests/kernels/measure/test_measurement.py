"""What a measurement says of itself: ratios that spreads allow, times that are mostly fixed cost."""

from dataclasses import replace

import pytest

from kernels.device.backend import DeviceInfo
from kernels.device.clocks import Timing
from kernels.measure.measurement import Measurement, PeerResult, TimeRatio, time_ratio
from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_measurement

PROBLEM = AttentionProblem(q_len=32, kv_len=32, head_dim=16, block_m=16, block_n=16)
H200, CPU, OTHER = (
    DeviceInfo(backend, name, "2", "3", "3")
    for backend, name in (("cuda", "NVIDIA H200"), ("interpreter", "a CPU"), ("cuda", "another GPU"))
)


def timing(low, median, high):
    return Timing(median, low, high, 20)


def measured(device, *results):
    return Measurement(PROBLEM, device, "2026-01-01", results)


def test_the_ends_of_a_ratio_are_the_ends_of_both_spreads():
    ratio = time_ratio(timing(2.0, 2.2, 2.5), timing(5.0, 5.5, 6.0))
    assert ratio == TimeRatio(2.0, 3.0)
    assert ratio.is_usable


def test_a_spread_that_cannot_carry_a_ratio_is_known():
    steady, noisy = timing(0.09, 0.1, 0.11), timing(0.1, 60.0, 130.0)
    assert not time_ratio(steady, noisy).is_usable
    assert not time_ratio(noisy, steady).is_usable
    assert time_ratio(steady, steady).is_usable


@pytest.mark.parametrize(
    ("overheads", "mostly"), [((0.012, 0.006), True), ((0.012, 0.004), False), ((0.002, 0.006), False)]
)
def test_times_are_mostly_fixed_cost_if_it_is_half_of_each(overheads, mostly):
    results = [
        PeerResult(name, Timing(ms, ms, ms, 9), 0, overhead_ms=overhead)
        for name, ms, overhead in zip(("naive", "sdpa"), (0.02, 0.01), overheads, strict=True)
    ]
    assert measured(CPU, *results).is_mostly_overhead(*results) == mostly


def test_fixed_cost_is_not_claimed_of_a_device_without_a_datasheet():
    result = PeerResult("naive", Timing(0.01, 0.01, 0.01, 9), 0)
    assert measured(H200, result).is_mostly_overhead(result)
    assert not measured(OTHER, result).is_mostly_overhead(result)
    assert not measured(H200).is_mostly_overhead(PeerResult("naive", refused="needs 68 GB"))


def test_only_the_tiny_recording_is_mostly_fixed_cost():
    found = set()
    for name, preset in PRESETS.items():
        measurement = recorded_measurement(preset.problem)
        for direction, ours in (("forward", "flash2"), ("backward", "ours")):
            results = measurement.result(ours, direction), measurement.result("naive", direction)
            assert time_ratio(results[0].timing, results[1].timing).is_usable
            if measurement.is_mostly_overhead(*results):
                found.add((name, direction))
    assert found == {("tiny", "forward"), ("tiny", "backward")}


def test_a_document_without_the_fixed_cost_is_read():
    measurement = measured(CPU, PeerResult("naive", Timing(1.0, 1.0, 1.0, 9), 0, overhead_ms=0.5))
    values = measurement.as_dict()
    assert Measurement.from_dict(values) == measurement
    del values["results"][0]["overhead_ms"]
    older = replace(measurement, results=(replace(measurement.results[0], overhead_ms=None),))
    assert Measurement.from_dict(values) == older
