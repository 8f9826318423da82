"""What was measured: all peers on one problem, as plain frozen values. `kernels.measure.measure` makes them. Needs neither torch nor triton."""

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
    """What one implementation gave. `refused` says why it was not run ("needs 68 GB, 24 GB free"); then the rest is None."""

    peer: str
    timing: Timing | None = None
    peak_extra_bytes: int | None = None
    """Peak of allocated bytes during a call beyond what was there before it: the inputs, and for a backward pass what the forward
    pass saved. The results count."""
    refused: str | None = None
    direction: str = "forward"
    out_of_memory: bool = False
    """Whether it was refused because the device has too little memory: a result, not a fault."""

    def tflops(self, problem: AttentionProblem) -> float | None:
        """10^12 floating-point operations a second, by FlashAttention's count; None without a timing."""
        if self.timing is None:
            return None
        return attention_flops(problem, self.direction) / self.timing.median_ms / 1e9


@dataclass(frozen=True)
class Measurement:
    """All peers on one problem."""

    problem: AttentionProblem
    device: DeviceInfo
    recorded_at: str
    results: tuple[PeerResult, ...]
    gpu: GpuState | None = None
    """Clocks and throttling meanwhile, where nvidia-smi gives them."""

    def result(self, peer: str, direction: str = "forward") -> PeerResult | None:
        """What one peer gave in one direction; None where it was not asked."""
        return next(
            (result for result in self.results if (result.peer, result.direction) == (peer, direction)), None
        )

    def as_dict(self) -> dict:
        """Field names to plain values, fit for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict) -> Measurement:
        """The reverse of `as_dict`."""
        return cls(
            problem=AttentionProblem.from_dict(values["problem"]),
            device=DeviceInfo(**values["device"]),
            recorded_at=values["recorded_at"],
            results=tuple(
                PeerResult(**result | {"timing": Timing(**result["timing"]) if result["timing"] else None})
                for result in values["results"]
            ),
            gpu=GpuState(**gpu | {"slowed_by": tuple(gpu["slowed_by"])})
            if (gpu := values.get("gpu"))
            else None,
        )
