"""Ceilings of the device at hand: bytes a second of a large copy, operations a second of a large matrix product."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict, dataclass

from kernels.device.backend import DeviceInfo
from kernels.device.clocks import CpuClock, CudaClock, Timing

COPY = "copy"
PRODUCT = "product"
BUDGET_S = 0.3
COPY_BYTES = {"cuda": 512 << 20, "cpu": 256 << 20}
"""Bytes of the tensor that is copied: far more than any cache."""
PRODUCT_SIZE = {"cuda": 8192, "cpu": 1536}
PRODUCT_DTYPES = {"cuda": ("float16", "bfloat16", "float32"), "cpu": ("float32",)}
"""A CPU emulates float16 and bfloat16 products, so that their speed is no ceiling."""


@dataclass(frozen=True)
class Ceiling:
    """One ceiling: `work` bytes (read and written) or floating-point operations a call, and the time of a call."""

    kind: str
    dtype: str
    work: float
    timing: Timing
    device: DeviceInfo
    recorded_at: str

    @property
    def per_second(self) -> float:
        """Bytes/s of a copy, FLOP/s of a product."""
        return self.work / self.timing.median_ms * 1e3

    def as_dict(self) -> dict:
        """Field names to plain values, fit for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict) -> Ceiling:
        """The reverse of `as_dict`. Raises ValueError for another kind."""
        if values["kind"] not in (COPY, PRODUCT):
            raise ValueError(f"kind={values['kind']!r} is not accepted: expected {COPY} or {PRODUCT}")
        return cls(
            **values | {"timing": Timing(**values["timing"]), "device": DeviceInfo(**values["device"])}
        )


def measure_ceilings(progress: Callable[[str], None] = lambda words: None) -> tuple[Ceiling, ...]:
    """Copy and products, one after the other, on normally distributed numbers (zeros run faster)."""
    import torch

    from kernels.device.backend import device_info, utc_now
    from kernels.device.runtime import BACKEND

    clock = CudaClock() if BACKEND == "cuda" else CpuClock()
    device = device_info(BACKEND)
    found = []

    def take(kind: str, dtype: str, work: float, *calls: Callable[[], object]) -> None:
        """A ceiling is what the fastest of several ways to do the same reaches."""
        progress(f"{kind} {dtype}".strip())
        for call in calls:
            call()
        timings = clock.time_in_turn(
            {str(index): call for index, call in enumerate(calls)}, BUDGET_S
        ).values()
        timing = min(timings, key=lambda timing: timing.median_ms)
        found.append(Ceiling(kind, dtype, work, timing, device, utc_now()))

    with clock.context():
        source = torch.randn(COPY_BYTES[clock.device] // 4, device=clock.device)
        target = torch.empty_like(source)
        # At this size a memory copy in a graph is the slower way: 2.7 against 4.2 TB/s on an H200.
        by_kernel = functools.partial(torch.mul, source, 1.0, out=target)
        take(COPY, "", 2.0 * COPY_BYTES[clock.device], lambda: target.copy_(source), by_kernel)
        size = PRODUCT_SIZE[clock.device]
        for dtype in PRODUCT_DTYPES[clock.device]:
            left, right = (
                torch.randn(size, size, device=clock.device).to(getattr(torch, dtype)) for _ in range(2)
            )
            out = torch.empty_like(left)
            take(PRODUCT, dtype, 2.0 * size**3, lambda a=left, b=right, c=out: torch.mm(a, b, out=c))
    return tuple(found)
