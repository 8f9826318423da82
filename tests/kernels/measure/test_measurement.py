"""What a measurement says of itself: ratios that spreads allow, times that are mostly fixed cost."""

import json
from dataclasses import asdict, replace

import msgspec
import pytest

from kernels.device.backend import DeviceInfo
from kernels.device.clocks import Timing
from kernels.measure.measurement import Measurement, PeerResult, TimeRatio, ratio_to_naive
from kernels.problem import AttentionProblem

PROBLEM = AttentionProblem(q_len=32, kv_len=32, head_dim=16, block_m=16, block_n=16)
H200, CPU, OTHER = (
    DeviceInfo(backend, name, "2", "3", "3")
    for backend, name in (("cuda", "NVIDIA H200"), ("interpreter", "a CPU"), ("cuda", "another GPU"))
)


def timed(peer, median, low=None, high=None, **more):
    """A result; without a spread if none is given."""
    return PeerResult(peer, Timing(median, low or median, high or median, 20), 0, **more)


def measured(device, *results):
    return Measurement(PROBLEM, device, "2026-01-01", results)


def test_a_ratio_is_that_of_the_same_rounds_if_they_are_known():
    naive, ours = timed("naive", 5.5, 5.0, 6.0), timed("sdpa", 2.2, 2.0, 2.5)
    assert ratio_to_naive(ours, naive) == TimeRatio(2.0, 3.0)
    assert ratio_to_naive(replace(ours, naive_ratio=(2.4, 2.6)), naive) == TimeRatio(2.4, 2.6)
    assert ratio_to_naive(ours, PeerResult("naive", refused="needs 68 GB")) is None


@pytest.mark.parametrize(
    ("low", "high", "usable"), [(2.0, 3.0, True), (0.5, 1.0, True), (1.0, 2.1, False), (0.1, 130, False)]
)
def test_a_spread_that_cannot_carry_a_ratio_is_known(low, high, usable):
    assert TimeRatio(low, high).is_usable == usable


@pytest.mark.parametrize(
    ("overheads", "mostly"), [((0.012, 0.006), True), ((0.012, 0.004), False), ((0.002, 0.006), False)]
)
def test_times_are_mostly_fixed_cost_if_it_is_half_of_each(overheads, mostly):
    results = [
        timed(name, ms, overhead_ms=overhead)
        for name, ms, overhead in zip(("naive", "sdpa"), (0.02, 0.01), overheads, strict=True)
    ]
    assert measured(CPU, *results).is_mostly_overhead(*results) == mostly


def test_fixed_cost_is_not_claimed_of_a_device_without_a_datasheet():
    result = timed("naive", 0.01)
    assert measured(H200, result).is_mostly_overhead(result)
    assert not measured(OTHER, result).is_mostly_overhead(result)
    assert not measured(H200).is_mostly_overhead(PeerResult("naive", refused="needs 68 GB"))


@pytest.mark.parametrize("mask", ["full", "causal", "window"])
@pytest.mark.parametrize(("median", "mostly"), [(13.2, False), (14.5, True)])
def test_the_work_of_naive_attention_does_not_shrink_with_the_mask(mask, median, mostly):
    """On an A100 with head_dim 256 its products take 13.8 ms / 100, longer than its bytes."""
    problem = AttentionProblem(q_len=4096, kv_len=4096, head_dim=256, mask=mask)
    result = timed("naive", median, direction="backward")
    measurement = replace(measured(replace(H200, name="NVIDIA A100-SXM4-80GB"), result), problem=problem)
    assert measurement.is_mostly_overhead(result) == mostly


def test_a_document_that_is_older_than_ratio_and_fixed_cost_is_read():
    newer = {"overhead_ms": 0.5, "naive_ratio": (2.0, 3.0), "host_ms": 0.04, "call_ms": 1.1}
    result = timed("sdpa", 1.0, **newer)
    values = json.loads(json.dumps(asdict(measured(CPU, result))))
    assert msgspec.convert(values, Measurement) == measured(CPU, result)
    for name in newer:
        del values["results"][0][name]
    assert msgspec.convert(values, Measurement) == measured(CPU, PeerResult("sdpa", result.timing, 0))
