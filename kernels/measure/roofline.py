"""The roofline with measured points: the ceilings of a device, and the calls under them."""

from collections.abc import Iterable
from dataclasses import dataclass

from kernels.algorithms.standard.traffic import standard_bytes
from kernels.device.backend import DeviceInfo
from kernels.device.gpus import Gpu, gpu_named
from kernels.measure.ceilings import COPY, PRODUCT, Ceiling
from kernels.measure.counters import CounterRun
from kernels.measure.measurement import Measurement
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import attention_flops, compulsory_bytes

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
    """One call under the roof."""

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
            intensity, speed = (
                flops / formula(problem, result.direction),
                flops / result.timing.median_ms * 1e3,
            )
            points.append(RoofPoint(result.peer, result.direction, "modelled", intensity, speed, problem))
    return points
