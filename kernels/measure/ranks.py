"""Time and memory of attention over several GPUs, as frozen values. `timed_ranks.py` makes them.

A time is that of the slowest rank, by device events, after all ranks have met, of calls without `check`.
"one GPU" is the whole problem on each
GPU alone, all at once: so many times its rate is the ideal.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kernels.device.backend import DeviceInfo
from kernels.device.clocks import Timing
from kernels.device.gpu_state import GpuState
from kernels.file_format import Count, Day
from kernels.measure.measurement import Direction
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import attention_flops

ONE_GPU = "one GPU"
TORCH = {"torch all-gather": "allgather", "torch all-to-all": "alltoall"}
"""Methods of torch's own context_parallel, a prototype, by what its `set_rotate_method` calls them."""
DECODE = "decode"
"""`context_parallel_decode`: a few queries on every rank, and keys that are shared out."""
LONGEST_ALONE = 1 << 17
"""Tokens up to which the whole problem runs on one GPU; longer ones have the rate of this length."""


@dataclass(frozen=True)
class RanksTime:
    """One way to share a sequence out over ranks, in one direction."""

    problem: AttentionProblem
    """Of the whole sequence."""
    ranks: int
    method: str
    """A method of `context_parallel_attention`, one of TORCH, DECODE, or ONE_GPU."""
    layout: str
    direction: Direction
    transport: str
    device: DeviceInfo
    recorded_at: Day
    timing: Timing | None = None
    """Of the slowest rank. "backward" is the gradients alone."""
    peak_extra_bytes: Count | None = None
    """Of the rank that allocates most, during a call, beyond its inputs."""
    refused: str = ""
    gpu: GpuState | None = None
    """Clock and power of rank 0 meanwhile."""

    @property
    def tflops(self) -> float | None:
        """10^12 floating-point operations per second of all ranks together; None without a timing."""
        if self.timing is None:
            return None
        times = self.ranks if self.method == ONE_GPU else 1
        return times * attention_flops(self.problem, self.direction) / self.timing.median_ms / 1e9


def share_of_ideal(time: RanksTime, times: Iterable[RanksTime]) -> float | None:
    """Its rate over that of all GPUs if each computed alone; None if either was not timed.

    The rate of one GPU is that of the longest problem up to this length that differs in nothing else.
    """
    alone = [
        other
        for other in times
        if (other.method, other.direction, other.ranks) == (ONE_GPU, time.direction, time.ranks)
        and (other.problem.q_len == 1) == (time.problem.q_len == 1)
        and other.problem.kv_len <= time.problem.kv_len
        and other.problem.with_(q_len=time.problem.q_len, kv_len=time.problem.kv_len) == time.problem
        and other.tflops
    ]
    if time.tflops is None or not alone:
        return None
    longest = max(alone, key=lambda other: other.problem.kv_len)
    assert longest.tflops is not None
    return time.tflops / longest.tflops
