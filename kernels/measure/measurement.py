"""The measurement of all peers on one problem, as frozen values. `kernels.measure.measure` makes it.

Importing this file needs neither torch nor triton.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from kernels.device.backend import DeviceInfo
from kernels.device.clocks import Timing
from kernels.device.gpu_state import GpuState
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import attention_flops

DIRECTIONS = ("forward", "backward")


@dataclass(frozen=True)
class PeerResult:
    """Time and memory of one implementation, or why it was not run."""

    peer: str
    timing: Timing | None = None
    peak_extra_bytes: int | None = None
    """Peak of allocated bytes during a call, its results included, beyond what was allocated before it: the
    inputs, and for a backward pass also what the forward pass saved."""
    refused: str | None = None
    """Why it was not run: "needs 68 GB, 24 GB free". Timing and memory are then None."""
    direction: str = "forward"
    out_of_memory: bool = False
    """Whether it was refused because the device has too little memory: a result, not a fault."""

    def tflops(self, problem: AttentionProblem) -> float | None:
        """10^12 floating-point operations per second, by FlashAttention's count; None without a timing."""
        if self.timing is None:
            return None
        return attention_flops(problem, self.direction) / self.timing.median_ms / 1e9


@dataclass(frozen=True)
class Measurement:
    """All peers on one problem."""

    problem: AttentionProblem
    device: DeviceInfo
    recorded_at: str
    """Date and time in UTC, ISO 8601."""
    results: tuple[PeerResult, ...]
    gpu: GpuState | None = None
    """Clocks and throttling of the GPU during the measurement; None if they could not be read."""

    def result(self, peer: str, direction: str = "forward") -> PeerResult | None:
        """The result of one peer in one direction; None if it was not measured."""
        for result in self.results:
            if (result.peer, result.direction) == (peer, direction):
                return result
        return None

    def as_dict(self) -> dict:
        """Field names to plain values, fit for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict) -> Measurement:
        """The reverse of `as_dict`."""
        gpu = values.get("gpu")
        return cls(
            problem=AttentionProblem.from_dict(values["problem"]),
            device=DeviceInfo(**values["device"]),
            recorded_at=values["recorded_at"],
            results=tuple(_result_from_dict(result) for result in values["results"]),
            gpu=GpuState(**gpu | {"slowed_by": tuple(gpu["slowed_by"])}) if gpu else None,
        )


def _result_from_dict(values: dict) -> PeerResult:
    timing = Timing(**values["timing"]) if values["timing"] else None
    return PeerResult(**values | {"timing": timing})
