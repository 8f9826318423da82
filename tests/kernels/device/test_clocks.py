"""Clocks: percentiles and spread of timings, calls that take turns, peak memory, replay on a GPU."""

import functools
import time

import pytest
import torch

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


def test_a_call_on_a_cpu_is_timed_and_run_as_often_as_it_is_sampled():
    calls = []
    clock = clocks.CpuClock()
    timing = clock.time_in_turn({"sleep": lambda: calls.append(time.sleep(0.002))}, budget_s=0.0)["sleep"]
    assert timing.samples == len(calls) == clocks.MIN_SAMPLES
    assert timing.low_ms >= 2


def test_peak_memory_on_a_cpu_is_the_most_that_was_allocated_at_once():
    size = 1 << 20
    kept = torch.empty(4 * size, dtype=torch.int8)

    def call():
        first = torch.empty(2 * size, dtype=torch.int8)
        del first
        return [torch.empty(n * size, dtype=torch.int8) for n in (1, 2)]

    clock = clocks.CpuClock()
    assert clock.peak_extra_bytes(call) == 3 * size
    assert clock.peak_extra_bytes(lambda: kept) == 0


@pytest.fixture
def cuda():
    clock = clocks.CudaClock()
    with clock.context():
        yield clock


@pytest.mark.gpu
def test_a_call_on_a_gpu_is_captured_once_and_replayed(cuda):
    calls, numbers = [], torch.zeros(1, device="cuda")

    def call():
        calls.append(1)
        numbers.add_(1)

    replay = cuda.prepare(call)
    captured, before = len(calls), int(numbers)
    for _ in range(3):
        replay()
    torch.cuda.synchronize()
    assert len(calls) == captured
    assert int(numbers) == before + 3


@pytest.mark.gpu
def test_a_graph_keeps_the_tensors_of_its_call(cuda):
    numbers = torch.ones(1 << 20, device="cuda")
    result = torch.empty_like(numbers)
    replay = cuda.prepare(functools.partial(torch.mul, numbers, 2, out=result))
    del numbers
    other = torch.full((1 << 20,), 9.0, device="cuda")
    result.zero_()
    replay()
    torch.cuda.synchronize()
    assert (result == 2).all()
    assert (other == 9).all()


@pytest.mark.gpu
def test_a_longer_call_on_a_gpu_takes_longer(cuda):
    matrices = [torch.ones(size, size, device="cuda") for size in (64, 4096)]
    calls = {size: functools.partial(torch.mm, m, m) for size, m in zip((64, 4096), matrices, strict=True)}
    timings = cuda.time_in_turn(calls, budget_s=0.0)
    assert timings[4096].median_ms > 5 * timings[64].median_ms > 0


@pytest.mark.gpu
def test_peak_memory_on_a_gpu_is_the_most_that_was_allocated_at_once(cuda):
    size = 8 << 20
    kept = torch.empty(4 * size, dtype=torch.int8, device="cuda")

    def call():
        first = torch.empty(2 * size, dtype=torch.int8, device="cuda")
        del first
        return [torch.empty(n * size, dtype=torch.int8, device="cuda") for n in (1, 2)]

    assert cuda.peak_extra_bytes(call) == 3 * size
    assert cuda.peak_extra_bytes(lambda: kept) == 0


@pytest.mark.gpu
def test_memory_that_torch_cached_is_free(cuda):
    before = cuda.free_bytes()
    large = torch.empty(1 << 30, dtype=torch.int8, device="cuda")
    assert cuda.free_bytes() <= before - (1 << 30)
    del large
    assert cuda.free_bytes() >= before - (64 << 20)
