"""The roofline: the ceilings of a device (a large copy and a large matrix product), and calls under them."""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from kernels.algorithms.standard.traffic import standard_bytes
from kernels.device.backend import DeviceInfo, device_info, utc_now
from kernels.device.clocks import Call, Clock, Timing, clock_for
from kernels.device.gpus import Gpu, gpu_named
from kernels.file_format import Day
from kernels.measure.counters import CounterRun
from kernels.measure.measurement import Measurement
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import attention_flops, compulsory_bytes

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


MATERIALISING = ("naive", "sdpa_math")
"""Peers that write S and P to memory."""


@dataclass(frozen=True)
class Roof:
    """Two ceilings: bytes/s of memory, FLOP/s of matrix units. `origin` is "measured" or "datasheet"."""

    label: str
    bytes_per_s: float
    flops_per_s: float
    origin: str

    @property
    def ridge(self) -> float:
        """FLOP per byte at which the two meet."""
        return self.flops_per_s / self.bytes_per_s

    def attainable(self, intensity: float) -> float:
        """FLOP/s under the roof (Williams, Waterman and Patterson 2009)."""
        return min(self.flops_per_s, intensity * self.bytes_per_s)


@dataclass(frozen=True)
class RoofPoint:
    peer: str
    direction: str
    bytes_are: str
    """"counted", "DRAM", "modelled", or "operations": requested, modelled from the tensors of operations."""
    intensity: float
    """FLOP per byte, of these bytes."""
    flops_per_s: float
    problem: AttentionProblem


def datasheet_roof(gpu: Gpu) -> Roof:
    """In float16."""
    return Roof(f"datasheet of the {gpu.name}", gpu.hbm_bandwidth, gpu.fp16_flops, "datasheet")


def roofs(ceilings: Iterable[Ceiling], device: DeviceInfo, dtype: str, found: str = "measured") -> list[Roof]:
    """The roofs of a device that are known: the measured one and that of its datasheet.

    The measured roof is for `dtype`, or for another type if no product of `dtype` was measured. The
    datasheet's is for 16-bit types. `found` is what the label says of the first: "measured" here and now, or
    "recorded".
    """
    known = []
    own = [ceiling for ceiling in ceilings if ceiling.device.name == device.name]
    copies, products = ([each for each in own if each.kind == kind] for kind in (COPY, PRODUCT))
    if copies and products:
        product = min(products, key=lambda ceiling: ceiling.dtype != dtype)  # the first one if none is of it
        label = f"{found}, {product.dtype} product"
        known.append(Roof(label, copies[-1].per_second, product.per_second, "measured"))
    if (gpu := gpu_named(device.name)) and dtype != "float32":
        known.append(datasheet_roof(gpu))
    return known


def counter_points(runs: Iterable[CounterRun]) -> list[RoofPoint]:
    """Two points per run: one over its requested bytes if they are known, one over its DRAM bytes.

    Our kernels counted what they requested; that of torch's operations comes from the sizes of their tensors.
    The time is that of the same hardware counters.
    """
    points = []
    for run in runs:
        flops = attention_flops(run.problem, run.direction)
        speed = flops / (sum(kernel.time_ms for kernel in run.kernels) / 1e3)
        requested = sum(operation.bytes_moved for operation in run.counted)
        how = "operations" if run.peer in MATERIALISING else "counted"
        for bytes_are, moved in ((how, requested), ("DRAM", run.dram_bytes)):
            if moved:
                intensity = flops / moved
                points.append(RoofPoint(run.peer, run.direction, bytes_are, intensity, speed, run.problem))
    return points


def timed_points(measurement: Measurement, directions: Iterable[str]) -> list[RoofPoint]:
    """Points of timed calls over compulsory bytes; for peers of MATERIALISING over those of S and P too."""
    problem, points = measurement.problem, []
    for result in measurement.results:
        if result.timing is not None and result.direction in directions:
            flops = attention_flops(problem, result.direction)
            formula = standard_bytes if result.peer in MATERIALISING else compulsory_bytes
            intensity = flops / formula(problem, result.direction)
            speed = flops / result.timing.median_ms * 1e3
            points.append(RoofPoint(result.peer, result.direction, "modelled", intensity, speed, problem))
    return points
