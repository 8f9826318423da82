"""The ceilings of a device: bytes/s of a large copy, and FLOP/s of a large matrix product."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from kernels.device.backend import DeviceInfo, device_info, utc_now
from kernels.device.clocks import Call, Clock, Timing, clock_for
from kernels.file_format import Day

COPY = "copy"
PRODUCT = "product"
BUDGET_S = 0.3
COPY_BYTES = {"cuda": 512 << 20, "cpu": 256 << 20}
"""Bytes of the tensor that is copied: far more than fits in any cache."""
PRODUCT_SIZE = {"cuda": 8192, "cpu": 1536}
PRODUCT_DTYPES = {"cuda": ("float16", "bfloat16", "float32"), "cpu": ("float32",)}
"""A CPU emulates float16 and bfloat16 products, so their speed is not a ceiling."""


@dataclass(frozen=True)
class Ceiling:
    """One ceiling: the work of a call and its time."""

    kind: Annotated[str, Meta(pattern="^(copy|product)$")]
    """COPY or PRODUCT."""
    dtype: str
    """Element type of a product; empty for a copy."""
    work: Annotated[float, Meta(ge=1, lt=1e30)]
    """Bytes read and written by a copy, floating-point operations of a product."""
    timing: Timing
    device: DeviceInfo
    recorded_at: Day

    @property
    def per_second(self) -> float:
        """Bytes/s of a copy, FLOP/s of a product."""
        return self.work / self.timing.median_ms * 1e3


def measure_ceilings(progress: Callable[[str], None] = lambda label: None) -> tuple[Ceiling, ...]:
    """A copy, then products, on normally distributed numbers (zeros run faster).

    Before each of them, `progress` is called with its name: "copy", "product float16", ... If the same work
    can be done in several ways, the fastest one counts.
    """
    from kernels.device.runtime import BACKEND

    clock, device = clock_for(BACKEND), device_info(BACKEND)
    ceilings = []
    with clock.context():
        for kind, dtype, work, calls in _workloads(clock):
            progress(f"{kind} {dtype}".strip())
            for call in calls:
                call()  # warm up
            timings = clock.time_in_turn(dict(enumerate(calls)), BUDGET_S).values()
            fastest = min(timings, key=lambda timing: timing.median_ms)
            ceilings.append(Ceiling(kind, dtype, work, fastest, device, utc_now()))
    return tuple(ceilings)


def _workloads(clock: Clock) -> Iterator[tuple[str, str, float, list[Call]]]:
    """(kind, dtype, work, ways to do that work) of each ceiling; the work in bytes or FLOPs."""
    import torch

    source = torch.randn(COPY_BYTES[clock.device] // 4, device=clock.device)
    target = torch.empty_like(source)
    # At this size a memory copy in a CUDA graph is slower than a kernel: 2.7 against 4.2 TB/s on an H200.
    by_kernel = functools.partial(torch.mul, source, 1.0, out=target)
    yield COPY, "", 2.0 * COPY_BYTES[clock.device], [functools.partial(target.copy_, source), by_kernel]
    size = PRODUCT_SIZE[clock.device]
    for dtype in PRODUCT_DTYPES[clock.device]:
        left, right = torch.randn(2, size, size, device=clock.device).to(getattr(torch, dtype))
        product = functools.partial(torch.mm, left, right, out=torch.empty_like(left))
        yield PRODUCT, dtype, 2.0 * size**3, [product]
