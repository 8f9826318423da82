"""Clocks: percentiles and spread of timings, calls that take turns, peak memory, replay on a GPU."""

import contextlib
import functools
import itertools
from types import SimpleNamespace

import pytest
import torch

from kernels.device import clocks
from kernels.device.clocks import (
    CALLS_IN_A_ROW,
    FEWEST_CALLS,
    ROUNDS,
    Clock,
    CudaClock,
    Timing,
    time_calls,
)


class Believing(CudaClock):
    """A clock that believes the calls: each returns its milliseconds."""

    def __init__(self):
        """It needs no GPU."""

    def prepare(self, call):
        return call

    def sample_ms(self, call):
        return call()


def test_calls_take_turns_until_each_has_used_its_budget():
    order, times_ms = [], {"slow": 50.0, "fast": 1.0, "no time": 0.0}
    calls = {name: lambda name=name, ms=ms: order.append(name) or ms for name, ms in times_ms.items()}
    timings = Believing().time_in_turn(calls, budget_s=0.01)
    assert [timing.samples for timing in timings.values()] == [clocks.MIN_SAMPLES, 11, clocks.MAX_SAMPLES]
    assert order[:27] == ["slow", "fast", "no time"] * 5 + ["fast", "no time"] * 6


def test_a_timing_has_the_median_and_the_outer_percentiles():
    samples = iter(float(ms) for ms in (11, 1, 10, 2, 9, 3, 8, 4, 7, 5, 6))
    timing = Believing().time_in_turn({0: lambda: next(samples)}, budget_s=0.0655)[0]
    assert timing == Timing(6.0, 2.0, 10.0, 11)


class FakeMachine:
    """A CPU whose clock is told by the calls how long the processor and the wall clock ran."""

    def __init__(self):
        self.wall_s = self.processor_s = 0.0
        self.order, self.clock = [], Clock()
        self.clock._wall_s, self.clock._processor_s = lambda: self.wall_s, lambda: self.processor_s

    def call(self, name, *processor_ms, waits_ms=0.0):
        times = itertools.cycle(processor_ms)

        def run():
            self.order.append(name)
            busy_ms = next(times)
            self.processor_s += busy_ms / 1e3
            self.wall_s += (busy_ms + waits_ms) / 1e3

        return run


@pytest.mark.parametrize(
    ("processor_ms", "waits_ms", "sample_ms", "calls"),
    [
        ([2.0], 130.0, 2.0, 1),  # another process has the processor for so long
        ([9.0, 7.0, 8.0, 1.0], 0.0, 7.0, 3),
        ([0.01], 0.0, 0.01, clocks.SAMPLE_CALLS),
        ([900.0], 0.0, 900.0, 1),
    ],
)
def test_a_sample_on_a_cpu_is_the_fastest_of_the_calls_that_fit(processor_ms, waits_ms, sample_ms, calls):
    machine = FakeMachine()
    call = machine.call("a", *processor_ms, waits_ms=waits_ms)
    assert machine.clock.sample_ms(call) == pytest.approx(sample_ms)
    assert len(machine.order) == calls


def test_rounds_on_a_cpu_end_early_if_the_spread_is_small_and_use_the_whole_budget_if_a_peer_is_noisy():
    machine = FakeMachine()
    calls = {"a": machine.call("a", 30.0), "b": machine.call("b", 50.0)}
    timings = machine.clock.time_prepared(calls, budget_s=2.0)
    assert machine.order == ["a", "b"] * 13  # 13 rounds of 80 ms are a quarter of 4 s
    assert (timings["b"].median_ms, timings["b"].samples) == (pytest.approx(50.0), 13)
    calls = {"steady": machine.call("steady", 30.0), "noisy": machine.call("noisy", 30.0, 60.0)}
    timings = machine.clock.time_prepared(calls, budget_s=1.0)
    assert timings["steady"].samples == timings["noisy"].samples == 27  # of 75 ms: two seconds
    assert timings["noisy"].is_wide
    assert not timings["steady"].is_wide


def test_calls_on_a_cpu_run_on_one_thread_and_torch_gets_its_threads_back():
    before = torch.get_num_threads()
    with contextlib.suppress(ZeroDivisionError), Clock().context():
        assert torch.get_num_threads() == 1
        raise ZeroDivisionError
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_peak_memory_is_the_most_that_was_allocated_at_once(device):
    size = 8 << 20
    empty = functools.partial(torch.empty, dtype=torch.int8, device=device)
    kept = empty(4 * size)

    def call():
        first = empty(2 * size)
        del first
        return [empty(n * size) for n in (1, 2)]

    clock = clocks.Clock() if device == "cpu" else clocks.CudaClock()
    with clock.context():
        assert clock.peak_extra_bytes(call) == 3 * size
        assert clock.peak_extra_bytes(lambda: kept) == 0


@pytest.mark.parametrize(
    ("device_ms", "wall_ms", "in_a_row"),
    [(0.01, 0.04, CALLS_IN_A_ROW), (1.0, 1.0, CALLS_IN_A_ROW), (5.0, 5.0, 9), (400.0, 400.0, FEWEST_CALLS)],
)
def test_a_call_takes_as_long_as_the_slower_of_host_and_device(device_ms, wall_ms, in_a_row):
    """A host that queues work on a device, by one clock. Long calls are made less often."""
    at = SimpleNamespace(host_ms=0.0, device_ms=0.0, calls=0)

    def call():
        at.calls += 1
        at.host_ms += 0.04
        at.device_ms = max(at.device_ms, at.host_ms) + device_ms

    def synchronize():
        at.host_ms = max(at.host_ms, at.device_ms)

    time = time_calls(call, synchronize, lambda: at.host_ms / 1e3)
    assert time.host_ms == pytest.approx(0.04)
    assert time.wall_ms == pytest.approx(wall_ms, rel=0.02)
    assert at.calls == 1 + ROUNDS * in_a_row


@pytest.fixture
def cuda():
    clock = clocks.CudaClock()
    with clock.context():
        yield clock


@pytest.mark.gpu
def test_a_call_on_a_gpu_is_captured_once_and_replayed(cuda):
    assert clocks.clock_for("cuda").device == "cuda"
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
def test_memory_that_an_earlier_call_held_does_not_hide_a_peak(cuda):
    size = 8 << 20
    held = [torch.empty(size, dtype=torch.int8, device="cuda")]

    def call():
        held.clear()
        return torch.empty(2 * size, dtype=torch.int8, device="cuda")

    assert cuda.peak_extra_bytes(call) == 2 * size


@pytest.mark.gpu
def test_memory_that_torch_cached_is_free(cuda):
    before = cuda.free_bytes()
    large = torch.empty(1 << 30, dtype=torch.int8, device="cuda")
    assert cuda.free_bytes() <= before - (1 << 30)
    del large
    assert cuda.free_bytes() >= before - (64 << 20)
