"""Time and peak memory of calls: on CUDA by device events and torch's allocator, on a CPU by the process clock and torch's profiler."""

from __future__ import annotations

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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

os.environ.setdefault(
    "KINETO_LOG_LEVEL", "99"
)  # torch's profiler writes a line to stderr at every start otherwise

BUDGET_S = 1.0
"""Seconds of timed calls a peer, once warm; at least MIN_SAMPLES calls and at most MAX_SAMPLES."""
MIN_SAMPLES, MAX_SAMPLES = 5, 200
WIDE_SPREAD = 0.25
"""A spread above it is said beside the number."""
L2_FLUSH_BYTES = 256 << 20


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
        """Whether the spread is worth a word beside the number."""
        return self.spread > WIDE_SPREAD


class CpuClock:
    """The CPU at hand."""

    device = "cpu"

    def free_bytes(self) -> int:
        """Memory that a call may take."""
        return available_memory_bytes()

    def peak_extra_bytes(self, call: Callable[[], object]) -> int:
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

    def context(self) -> contextlib.AbstractContextManager:
        """What everything that is measured is prepared and called in."""
        return contextlib.nullcontext()

    def prepare(self, call: Callable[[], object]) -> Callable[[], object]:
        """The call as it is timed."""
        return call

    def time_in_turn(
        self, calls: dict[str, Callable[[], object]], budget_s: float | None = None
    ) -> dict[str, Timing]:
        """Prepare the calls, then time them."""
        return self.time_prepared(calls, budget_s)

    def time_prepared(
        self, calls: dict[str, Callable[[], object]], budget_s: float | None = None
    ) -> dict[str, Timing]:
        """Time calls that `prepare` gave, in turn; `budget_s` seconds each (default BUDGET_S)."""

        def sample(call: Callable[[], object]) -> float:
            began = time.perf_counter()
            call()
            return (time.perf_counter() - began) * 1e3

        return _time_in_turn(calls, sample, budget_s)


class CudaClock:
    """The current CUDA device."""

    device = "cuda"

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._stream = _stream()
        self._flush = torch.empty(L2_FLUSH_BYTES, dtype=torch.int8, device="cuda")

    def free_bytes(self) -> int:
        """Memory that a call may take, once what is cached and no longer used was given back."""
        gc.collect()  # graphs of earlier calls lie in cycles, and with them their memory
        self._torch.cuda.empty_cache()  # what torch keeps for later is free
        return self._torch.cuda.mem_get_info()[0]

    def peak_extra_bytes(self, call: Callable[[], object]) -> int:
        """Peak of torch's allocator during the call, beyond what was allocated before it."""
        cuda = self._torch.cuda
        cuda.synchronize()
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated()
        call()
        cuda.synchronize()
        return cuda.max_memory_allocated() - before

    def context(self) -> contextlib.AbstractContextManager:
        """One stream for everything: autograd runs a backward pass on the stream of its forward pass, where it can be captured."""
        return self._torch.cuda.stream(self._stream)

    def time_in_turn(
        self, calls: dict[str, Callable[[], object]], budget_s: float | None = None
    ) -> dict[str, Timing]:
        """Prepare the calls, then time them."""
        return self.time_prepared({name: self.prepare(call) for name, call in calls.items()}, budget_s)

    def time_prepared(
        self, calls: dict[str, Callable[[], object]], budget_s: float | None = None
    ) -> dict[str, Timing]:
        """Time calls that `prepare` gave, in turn; `budget_s` seconds each (default BUDGET_S). The L2 cache is flushed before each."""

        def sample(call: Callable[[], object]) -> float:
            self._flush.zero_()  # inputs come from HBM, not from the L2 that the call before filled
            start, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            end.synchronize()
            return start.elapsed_time(end)

        return _time_in_turn(calls, sample, budget_s)

    def prepare(self, call: Callable[[], object]) -> Callable[[], object]:
        """The call captured in a CUDA graph, so that small problems are not timed by their launch overhead."""
        call()
        self._torch.cuda.synchronize()
        graph = self._torch.cuda.CUDAGraph()
        with self._torch.cuda.graph(graph, stream=self._stream):
            call()
        graph.replay()

        def replay() -> None:
            graph.replay()

        replay.keeps_alive = call  # the graph reads the tensors of the call, and does not own them
        return replay


@functools.cache
def _stream() -> torch.cuda.Stream:
    """One stream for all clocks of a process.

    cuBLAS keeps a workspace for every stream that it has seen, in the thread of the forward and in that of the backward pass. Made here,
    while nothing large is cached, it does not come to lie inside a block of gigabytes that then could never be given back.
    """
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        square = torch.ones(256, 256, dtype=torch.float16, device="cuda", requires_grad=True)
        (square @ square).sum().backward()
    return stream


def _time_in_turn(
    calls: dict[str, Callable[[], object]], sample: Callable[[Callable], float], budget_s: float | None
) -> dict[str, Timing]:
    """Round by round, one call of each peer, so that a drift of the machine meets all of them alike. `budget_s` is for each peer."""
    budget_ms = 1e3 * (BUDGET_S if budget_s is None else budget_s)
    spent = {name: [] for name in calls}
    waiting = set(calls)
    while waiting:
        for name in sorted(waiting):
            spent[name].append(sample(calls[name]))
            if len(spent[name]) >= MAX_SAMPLES or (
                len(spent[name]) >= MIN_SAMPLES and sum(spent[name]) > budget_ms
            ):
                waiting.remove(name)
    return {name: _timing(samples) for name, samples in spent.items()}


def _timing(samples: list[float]) -> Timing:
    ordered = sorted(samples)
    last = len(ordered) - 1
    return Timing(
        statistics.median(ordered),
        ordered[math.floor(0.1 * last)],
        ordered[math.ceil(0.9 * last)],
        len(ordered),
    )


def available_memory_bytes() -> int:
    """Memory that a new program could take without swapping, from /proc/meminfo; where that is missing, all there is."""
    try:
        with open("/proc/meminfo") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
