"""Time and peak memory of calls.

On CUDA time comes from device events and memory from torch's allocator. On a CPU time comes from the wall
clock and memory from torch's profiler.
"""

from __future__ import annotations

import abc
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
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kernels.device.memory import available_memory_bytes

if TYPE_CHECKING:
    import torch

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise torch's profiler writes to stderr

BUDGET_S = 1.0
"""Seconds of timed calls per peer after warm-up, but at least MIN_SAMPLES and at most MAX_SAMPLES calls."""
MIN_SAMPLES, MAX_SAMPLES = 5, 200
WIDE_SPREAD = 0.25
"""Spread above which a page warns beside the number."""
L2_FLUSH_BYTES = 256 << 20

Call = Callable[[], Any]
"""What is timed. It may return anything; the result is ignored."""
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one call: median, 10th and 90th percentile of `samples` calls after warm-up."""

    median_ms: float
    low_ms: float
    high_ms: float
    samples: int

    @property
    def spread(self) -> float:
        """From the 10th to the 90th percentile, as a share of the median."""
        return (self.high_ms - self.low_ms) / self.median_ms

    @property
    def is_wide(self) -> bool:
        """Whether the spread is so wide that a page warns of it."""
        return self.spread > WIDE_SPREAD


class Clock(abc.ABC):
    """Measures calls on one device."""

    device: str
    """torch's name of the device: "cpu" or "cuda"."""

    @abc.abstractmethod
    def free_bytes(self) -> int:
        """Bytes that a call may take."""

    @abc.abstractmethod
    def peak_extra_bytes(self, call: Call) -> int:
        """Peak of allocated bytes during the call, beyond what was allocated before it."""

    @abc.abstractmethod
    def sample_ms(self, call: Call) -> float:
        """Milliseconds of one prepared call."""

    def context(self) -> contextlib.AbstractContextManager:
        """The context in which calls are prepared and timed."""
        return contextlib.nullcontext()

    def prepare(self, call: Call) -> Call:
        """The call as it is timed."""
        return call

    def time_in_turn(self, calls: dict[Key, Call], budget_s: float | None = None) -> dict[Key, Timing]:
        """Prepare the calls, then time them as `time_prepared` does."""
        return self.time_prepared({key: self.prepare(call) for key, call in calls.items()}, budget_s)

    def time_prepared(self, calls: dict[Key, Call], budget_s: float | None = None) -> dict[Key, Timing]:
        """Time calls that `prepare` gave, for `budget_s` seconds each (default BUDGET_S).

        The calls take turns, one sample per round, so that a drift of the machine affects all of them alike.
        """
        budget_ms = 1e3 * (BUDGET_S if budget_s is None else budget_s)
        samples: dict[Key, list[float]] = {key: [] for key in calls}
        waiting = list(calls)
        while waiting:
            for key in waiting:
                samples[key].append(self.sample_ms(calls[key]))
            waiting = [key for key in waiting if not _is_enough(samples[key], budget_ms)]
        return {key: _timing(values) for key, values in samples.items()}


def _is_enough(samples: list[float], budget_ms: float) -> bool:
    if len(samples) >= MAX_SAMPLES:
        return True
    return len(samples) >= MIN_SAMPLES and sum(samples) > budget_ms


def _timing(samples: list[float]) -> Timing:
    ordered = sorted(samples)
    last = len(ordered) - 1
    low, high = ordered[math.floor(0.1 * last)], ordered[math.ceil(0.9 * last)]
    return Timing(statistics.median(ordered), low, high, len(ordered))


class CpuClock(Clock):
    """The CPU of this machine."""

    device = "cpu"

    def free_bytes(self) -> int:
        """Bytes that a call may take without swapping."""
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
        """Milliseconds of one call by the wall clock."""
        began = time.perf_counter()
        call()
        return (time.perf_counter() - began) * 1e3


class CudaClock(Clock):
    """The current CUDA device of torch."""

    device = "cuda"

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._stream = _stream()
        self._flush = torch.empty(L2_FLUSH_BYTES, dtype=torch.int8, device="cuda")

    def free_bytes(self) -> int:
        """Bytes that a call may take, after torch has given back the cached memory that it does not use."""
        gc.collect()  # reference cycles keep the graphs of earlier calls, and their memory, alive
        self._torch.cuda.empty_cache()
        return self._torch.cuda.mem_get_info()[0]

    def peak_extra_bytes(self, call: Call) -> int:
        """Peak of torch's allocator during the call, beyond what was allocated before it."""
        gc.collect()  # memory of an earlier call that is freed during this one would hide its peak
        cuda = self._torch.cuda
        cuda.synchronize()
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated()
        call()
        cuda.synchronize()
        return cuda.max_memory_allocated() - before

    def context(self) -> contextlib.AbstractContextManager:
        """One stream for everything.

        Autograd runs a backward pass on the stream of its forward pass, and only a stream of our own can be
        captured.
        """
        return self._torch.cuda.stream(self._stream)

    def sample_ms(self, call: Call) -> float:
        """Milliseconds of one call between two device events. The L2 cache is flushed before it."""
        self._flush.zero_()  # so that inputs come from HBM, not from an L2 that the last call filled
        start, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    def prepare(self, call: Call) -> Call:
        """The call captured in a CUDA graph, so that a small problem's time is not its launch overhead."""
        call()
        self._torch.cuda.synchronize()
        graph = self._torch.cuda.CUDAGraph()
        with self._torch.cuda.graph(graph, stream=self._stream):
            call()
        graph.replay()
        return functools.partial(_replay, graph, call)


def _replay(graph: torch.cuda.CUDAGraph, call: Call) -> None:
    """Replay a graph of `call`.

    The graph reads tensors that it does not own; holding `call` keeps them alive.
    """
    graph.replay()


@functools.cache
def _stream() -> torch.cuda.Stream:
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
    """The clock of a backend, "cuda" or "interpreter"."""
    return CudaClock() if backend == "cuda" else CpuClock()
