"""Time and peak memory of calls.

On CUDA time comes from device events and memory from torch's allocator. On a CPU time is the processor time
of one thread, and memory comes from torch's profiler.
"""

import contextlib
import functools
import gc
import itertools
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from pynvml import NVMLError

from kernels.device.energy import Meter
from kernels.device.gpu_state import torch_gpu_uuid
from kernels.device.memory import available_memory_bytes
from kernels.file_format import Milliseconds

if TYPE_CHECKING:
    import torch

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise torch's profiler writes to stderr

BUDGET_S = 1.0
"""Seconds of timed calls per peer after warm-up, but at least MIN_SAMPLES and at most MAX_SAMPLES calls."""
MIN_SAMPLES, MAX_SAMPLES = 5, 200
SMALL_SPREAD = 0.05
"""Spread at which a CPU's timing ends before its budget is spent."""
SAMPLE_MS, SAMPLE_CALLS = 20.0, 30
"""A sample on a CPU is the fastest of the calls that fit into SAMPLE_MS, from 1 to SAMPLE_CALLS."""
WIDE_SPREAD = 0.25
"""Spread above which a page warns beside the number."""
L2_FLUSH_BYTES = 256 << 20
PEAK_CALLS = 5
"""Most calls of which the peak memory is taken on a GPU."""

CALLS_IN_A_ROW, ROUNDS = 20, 5
"""Calls that are queued one after another, and how often that is done."""
LONGEST_ROUND_MS = 50.0
"""Fewer calls are queued in a row if they take longer, but at least FEWEST_CALLS."""
FEWEST_CALLS = 3

METHODS = {
    "cuda": "median of device events, peers in turn, L2 flushed",
    "interpreter": "processor time of one thread, peers in turn; median of rounds, "
    f"each the fastest of up to {SAMPLE_CALLS} calls",
}
"""How the time is taken on each backend, in words."""

Call = Callable[[], Any]
"""What is timed. It may return anything; the result is ignored."""
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one call: median, 10th and 90th percentile of `samples` samples after warm-up.

    `sample_ms` of the clock says what a sample is: one call on CUDA, the fastest of several on a CPU.
    """

    median_ms: Milliseconds
    low_ms: Milliseconds
    high_ms: Milliseconds
    samples: int

    def __post_init__(self) -> None:
        if not self.low_ms <= self.median_ms <= self.high_ms:
            raise ValueError("expected 10th percentile <= median <= 90th percentile")

    @property
    def spread(self) -> float:
        """From the 10th to the 90th percentile, as a share of the median."""
        return (self.high_ms - self.low_ms) / self.median_ms

    @property
    def is_wide(self) -> bool:
        return self.spread > WIDE_SPREAD


@dataclass(frozen=True)
class CallTime:
    """Milliseconds of one of several calls in a row: until its work is queued, and until it is done."""

    host_ms: float
    wall_ms: float


def time_calls(
    call: Callable[[], object],
    synchronize: Callable[[], object],
    now_s: Callable[[], float] = time.perf_counter,
) -> CallTime:
    """Medians over ROUNDS. The call must be warm; `synchronize` waits until all queued work is done."""

    def in_a_row(count: int) -> tuple[float, float]:
        synchronize()
        began = now_s()
        for _ in range(count):
            call()
        queued = now_s()
        synchronize()
        return 1e3 * (queued - began) / count, 1e3 * (now_s() - began) / count

    most = int(LONGEST_ROUND_MS / max(in_a_row(1)[1], 1e-3))
    rounds = [in_a_row(min(max(most, FEWEST_CALLS), CALLS_IN_A_ROW)) for _ in range(ROUNDS)]
    return CallTime(*map(statistics.median, zip(*rounds, strict=True)))


def timing_of(samples: Sequence[float]) -> Timing:
    """Median and percentiles of samples in milliseconds."""
    return Timing(statistics.median(samples), *outer_percentiles(samples), len(samples))


def outer_percentiles(values: Sequence[float]) -> tuple[float, float]:
    """The 10th and the 90th percentile; of few values the next one outwards."""
    low, high = np.percentile(values, 10, method="lower"), np.percentile(values, 90, method="higher")
    return float(low), float(high)


@contextlib.contextmanager
def quick_collections() -> Iterator[None]:
    """Within it, gc.collect() does not look at the objects that were there before. Not to be nested.

    Memory and graphs of a call are free of garbage only after a collection, and there are five or so per
    implementation. With all that torch and a compiler have imported, each takes 0.1 s or more.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class Clock:
    """The clock of a CPU."""

    device = "cpu"
    """torch's name of the device: "cpu" or "cuda"."""
    _wall_s = staticmethod(time.perf_counter)
    _processor_s = staticmethod(time.process_time)

    def time_in_turn(self, calls: dict[Key, Call], budget_s: float | None = None) -> dict[Key, Timing]:
        return self.time_prepared({key: self.prepare(call) for key, call in calls.items()}, budget_s)

    def time_prepared(self, calls: dict[Key, Call], budget_s: float | None = None) -> dict[Key, Timing]:
        """Time calls that `prepare` gave."""
        return {key: timing_of(values) for key, values in self.sample_in_rounds(calls, budget_s).items()}

    def sample_in_rounds(
        self, calls: dict[Key, Call], budget_s: float | None = None
    ) -> dict[Key, list[float]]:
        """Samples of prepared calls in milliseconds, for `budget_s` seconds each (default BUDGET_S).

        The calls take turns, one sample per round, so that a drift of the machine affects all of them alike.
        Entry i of each list is from round i.
        """
        samples: dict[Key, list[float]] = {key: [] for key in calls}
        waiting, began = list(calls), self._wall_s()
        while waiting:
            for key in waiting:
                samples[key].append(self.sample_ms(calls[key]))
            waiting = self._unfinished(samples, budget_s or BUDGET_S, self._wall_s() - began)
        return samples

    @contextlib.contextmanager
    def context(self) -> Iterator[None]:
        """Torch with one thread.

        With several, each parallel part of a call waits for the slowest thread. On a busy machine that is the
        one that does not run: a call of 20 us then takes 12 ms.
        """
        import torch

        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)

    def free_bytes(self) -> int:
        """Bytes that a call may take."""
        return available_memory_bytes()

    def peak_extra_bytes(self, call: Call) -> int:
        """Peak of allocated minus freed bytes over the allocation events of torch's profiler."""
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            call()
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            profiler.export_chrome_trace(file.name)
            events = json.loads(Path(file.name).read_text())["traceEvents"]
        changes = sorted(
            (event["ts"], event["args"]["Bytes"]) for event in events if event.get("name") == "[memory]"
        )
        return max(itertools.accumulate((change for _, change in changes), initial=0))

    def sample_ms(self, call: Call) -> float:
        """Milliseconds of processor time of the fastest of the calls that fit into SAMPLE_MS.

        Time in which another process has the processor does not count. What another process still costs, by
        the cache and the core that it shares, only ever adds to a call, so the fastest one has the least.
        """
        fastest, began = math.inf, self._wall_s()
        for _ in range(SAMPLE_CALLS):
            before = self._processor_s()
            call()
            fastest = min(fastest, self._processor_s() - before)
            if self._wall_s() - began >= SAMPLE_MS / 1e3:
                break
        return fastest * 1e3

    def _unfinished(self, samples: dict[Key, list[float]], budget_s: float, spent_s: float) -> list[Key]:
        """All calls, until no spread is above SMALL_SPREAD or the budget of all is spent.

        The rounds go on for at least a quarter of it: a disturbance can last longer than a few short calls.
        """
        budget, rounds = len(samples) * budget_s, min(map(len, samples.values()))
        is_early = rounds < MIN_SAMPLES or spent_s < budget / 4
        noisy = is_early or any(timing_of(own).spread > SMALL_SPREAD for own in samples.values())
        return list(samples) if is_early or (spent_s < budget and noisy) else []

    def prepare(self, call: Call) -> Call:
        return call

    def call_time(self, call: Call) -> CallTime | None:
        """The time of a warm call that is not prepared; None if a sample is just that."""
        return None

    def meter(self) -> Meter | None:
        """What counts the device's energy; None if nothing does."""
        return None

    def mark(self) -> Any:
        """A mark behind the queued work; its `synchronize` waits for that. Of a device with a meter."""
        raise NotImplementedError


class CudaClock(Clock):
    """The current CUDA device of torch."""

    device = "cuda"

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._stream = _stream()
        self._flush = torch.empty(L2_FLUSH_BYTES, dtype=torch.int8, device="cuda")

    def free_bytes(self) -> int:
        gc.collect()  # reference cycles keep the graphs of earlier calls, and their memory, alive
        self._torch.cuda.empty_cache()
        return self._torch.cuda.mem_get_info()[0]

    def peak_extra_bytes(self, call: Call) -> int:
        """Peak of torch's allocator during the call, beyond what was allocated before it.

        The call is repeated until two peaks agree: a first call may make a workspace that stays, and memory
        of an earlier call that autograd's thread frees only during this one hides as much of its peak.
        """
        peak = self._peak_once(call)
        for _ in range(PEAK_CALLS - 1):
            previous, peak = peak, self._peak_once(call)
            if peak == previous:
                break
        return peak

    def _peak_once(self, call: Call) -> int:
        gc.collect()  # memory of an earlier call that is freed during this one would hide its peak
        cuda = self._torch.cuda
        cuda.synchronize()
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated()
        call()
        cuda.synchronize()
        return cuda.max_memory_allocated() - before

    @contextlib.contextmanager
    def context(self) -> Iterator[None]:
        """One stream for everything, and collections of garbage that look at new objects alone.

        Autograd runs a backward pass on the stream of its forward pass, and only a stream of our own can be
        captured.
        """
        with self._torch.cuda.stream(self._stream), quick_collections():
            yield

    def sample_ms(self, call: Call) -> float:
        """Milliseconds of one call between two device events."""
        self._flush.zero_()  # so that inputs come from HBM, not from an L2 that the last call filled
        start, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    def call_time(self, call: Call) -> CallTime:
        return time_calls(call, self._torch.cuda.synchronize)

    def meter(self) -> Meter | None:
        with contextlib.suppress(NVMLError):
            return Meter(torch_gpu_uuid())
        return None

    def mark(self) -> "torch.cuda.Event":
        event = self._torch.cuda.Event()
        event.record()
        return event

    def _unfinished(self, samples: dict[Key, list[float]], budget_s: float, spent_s: float) -> list[Key]:
        """The calls of the next round. A slow call leaves the rounds earlier."""
        most = {
            key: MIN_SAMPLES if sum(own) > 1e3 * budget_s else MAX_SAMPLES for key, own in samples.items()
        }
        return [key for key, own in samples.items() if len(own) < most[key]]

    def prepare(self, call: Call) -> Call:
        """The call captured in a CUDA graph, so that a small problem's time is not its launch overhead."""
        call()
        self._torch.cuda.synchronize()
        graph = self._torch.cuda.CUDAGraph()
        with self._torch.cuda.graph(graph, stream=self._stream):
            call()

        def replay(keeps_alive: Call = call) -> None:  # the graph reads tensors that it does not own
            graph.replay()

        replay()
        return replay


@functools.cache
def _stream() -> "torch.cuda.Stream":
    """One stream for all clocks of a process.

    cuBLAS keeps a workspace for every stream, in the thread of the forward pass and in that of the backward
    pass. It is made here, while torch has cached nothing large. Made later, it could lie inside a block
    of gigabytes, which torch then could not give back.
    """
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        square = torch.ones(256, 256, dtype=torch.float16, device="cuda", requires_grad=True)
        (square @ square).sum().backward()
    return stream


def clock_for(backend: str) -> Clock:
    return CudaClock() if backend == "cuda" else Clock()
