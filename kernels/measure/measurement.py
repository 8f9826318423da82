"""The measurement of all peers on one problem, as frozen values. `kernels.measure.measure` makes it."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from kernels.algorithms.standard.traffic import standard_bytes
from kernels.device.backend import DeviceInfo
from kernels.device.clocks import Timing
from kernels.device.energy import Sustained
from kernels.device.gpu_state import GpuState
from kernels.device.gpus import gpu_named
from kernels.file_format import Amount, Count, Day
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import attention_flops

DIRECTIONS = ("forward", "backward")
Direction = Annotated[str, Meta(pattern="^(forward|backward)$")]
MAX_RATIO_WIDTH = 2.0
"""A ratio of times is shown if its upper end is at most this many times its lower end."""
MOSTLY = 0.5
"""Share of a call's time from which its fixed cost is said to be most of it."""
TINY_WORK = 0.01
"""Share of a time on a GPU below which the modelled work of standard attention is said to be too small."""


@dataclass(frozen=True)
class TimeRatio:
    """How many times longer one call takes than another: the ends of its spread."""

    low: float
    high: float

    @property
    def is_usable(self) -> bool:
        """Whether the ends are close enough for the ratio to mean something."""
        return self.high <= MAX_RATIO_WIDTH * self.low


@dataclass(frozen=True)
class PeerResult:
    """Time and memory of one implementation, or why it was not run."""

    peer: str
    timing: Timing | None = None
    """On a GPU the time of the kernels, replayed from a graph; on a CPU that of the whole call."""
    peak_extra_bytes: Count | None = None
    """Peak of allocated bytes during a call, its results included, beyond what was allocated before it: the
    inputs, and for a backward pass also what the forward pass saved."""
    refused: str | None = None
    """Why it was not run: "needs 68 GB, 24 GB free". Timing and memory are then None."""
    direction: Direction = "forward"
    out_of_memory: bool = False
    """Whether it was refused because the device has too little memory: a result, not a fault."""
    overhead_ms: Amount | None = None
    """Milliseconds of the same call with one query and one key; None if it was not timed."""
    naive_ratio: tuple[Amount, Amount] | None = None
    """10th and 90th percentile of naive's time over this time, both of the same round: a drift of the machine
    affects both alike. None if naive did not run, or in a document older than this field."""
    host_ms: Amount | None = None
    """Milliseconds of the host per call until its work is queued on the GPU, without a graph. None on a CPU,
    or in a document older than this field."""
    call_ms: Amount | None = None
    """Milliseconds per call by the clock, calls in a row without a graph; None as host_ms is."""
    sustained: Sustained | None = None
    """The call repeated without a pause, with its energy; None if that was not asked for or not counted."""
    version: str = ""
    """Version of the library that the implementation is from; "" if it is torch's or ours, if it was not run,
    or in a document older than this field."""

    def tflops(self, problem: AttentionProblem) -> float | None:
        """10^12 floating-point operations per second, counted by `attention_flops`; None without a timing."""
        if self.timing is None:
            return None
        return attention_flops(problem, self.direction) / self.timing.median_ms / 1e9


def ratio_to_naive(ours: PeerResult, naive: PeerResult) -> TimeRatio | None:
    """How many times longer naive takes, round by round, or else from the 10th and 90th percentiles of both.

    None if either was not timed.
    """
    if ours.timing is None or naive.timing is None:
        return None
    if ours.naive_ratio is not None:
        return TimeRatio(*ours.naive_ratio)
    return TimeRatio(naive.timing.low_ms / ours.timing.high_ms, naive.timing.high_ms / ours.timing.low_ms)


@dataclass(frozen=True)
class Measurement:
    problem: AttentionProblem
    device: DeviceInfo
    recorded_at: Day
    """Date and time in UTC, ISO 8601."""
    results: tuple[PeerResult, ...]
    gpu: GpuState | None = None
    """Clocks and throttling of the GPU during the measurement; None if they could not be read."""

    def result(self, peer: str, direction: str = "forward") -> PeerResult | None:
        found = (each for each in self.results if (each.peer, each.direction) == (peer, direction))
        return next(found, None)

    def is_mostly_overhead(self, *results: PeerResult) -> bool:
        """Whether the problem is so small that the times of all these results are mostly fixed cost.

        On a CPU a call with one query and one key takes at least MOSTLY of each time. On a GPU in GPUS, the
        work of standard attention, by its modelled bytes and FLOPs at the GPU's bandwidth and peak, takes
        less than TINY_WORK of each time: the rest is launches and latency. Standard attention computes every
        score, whatever the mask.
        """
        times = [(result.timing.median_ms, result.overhead_ms) for result in results if result.timing]
        if any(overhead is not None for _, overhead in times):
            return all((overhead or 0.0) >= MOSTLY * median for median, overhead in times)
        gpu = gpu_named(self.device.name)
        if gpu is None or not times:
            return False
        direction, whole = results[0].direction, self.problem.with_(mask="full")
        moving_s = standard_bytes(self.problem, direction) / gpu.hbm_bandwidth
        work_s = max(moving_s, attention_flops(whole, direction) / gpu.fp16_flops)
        return all(1e3 * work_s < TINY_WORK * median for median, _ in times)


def shape_words(problem: AttentionProblem) -> str:
    shape = f"N {problem.q_len} x {problem.kv_len} d {problem.head_dim} {problem.mask} {problem.dtype}"
    return f"{shape} b{problem.batch} h{problem.q_heads}"


def report(measurement: Measurement) -> str:
    """The problem, then one line per peer and direction: time, speed and memory, or why there are none."""
    problem, lines = measurement.problem, [shape_words(measurement.problem)]
    for result in measurement.results:
        words = str(result.refused)
        if result.timing is not None:
            speed = f"{result.timing.median_ms:9.3f} ms {result.tflops(problem):7.1f} TFLOP/s"
            words = f"{speed} +{(result.peak_extra_bytes or 0) / 2**20:,.0f} MiB"
        if result.call_ms is not None:
            words += f"; a call {result.call_ms:.3f} ms, queued after {result.host_ms:.3f} ms"
        if own := result.sustained:
            power = f"{own.joules:.3f} J, {own.power_w:.0f} W, {own.sm_mhz:.0f} MHz"
            words += f"; without a pause {own.ms:.3f} ms, {power}"
        lines.append(f"  {result.direction:8} {result.peer:14} {words}")
    return "\n".join(lines)
