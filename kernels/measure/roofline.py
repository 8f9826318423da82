"""The roofline with measured points: ceilings of a device, and where attention lies under them by which bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kernels.algorithms.standard.traffic import standard_bytes
from kernels.device.backend import DeviceInfo
from kernels.device.gpus import GPUS, Gpu
from kernels.measure.ceilings import COPY, PRODUCT, Ceiling
from kernels.measure.counters import CounterRun
from kernels.measure.measurement import Measurement
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import (
    attention_flops,
    compulsory_bytes,
)

MATERIALISING = ("naive", "sdpa_math")
"""Peers that write S and P to memory."""


@dataclass(frozen=True)
class Roof:
    """Two ceilings: bytes/s of memory, FLOP/s of the matrix units; `origin` is "measured" or "datasheet"."""

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
    """One call: FLOP over its bytes, and FLOP/s. `bytes_are` is "counted", "DRAM" or "modelled"."""

    peer: str
    direction: str
    bytes_are: str
    intensity: float
    flops_per_s: float
    problem: AttentionProblem


def datasheet_roof(gpu: Gpu) -> Roof:
    """What the datasheet of a GPU allows in float16."""
    return Roof(f"datasheet of the {gpu.name}", gpu.hbm_bandwidth, gpu.fp16_flops, "datasheet")


def roofs(ceilings: Iterable[Ceiling], device: DeviceInfo | None, dtype: str) -> list[Roof]:
    """The measured roof of a device and that of its datasheet, as far as they are known. The datasheet's is for float16."""
    found = []
    of_device = [ceiling for ceiling in ceilings if device is None or ceiling.device.name == device.name]
    copies = [ceiling for ceiling in of_device if ceiling.kind == COPY]
    products = [ceiling for ceiling in of_device if ceiling.kind == PRODUCT]
    product = next(
        (ceiling for ceiling in products if ceiling.dtype == dtype), products[0] if products else None
    )
    if copies and product:
        label = f"measured copy and {product.dtype} product"
        found.append(Roof(label, copies[-1].per_second, product.per_second, "measured"))
    gpu = next((gpu for key, gpu in GPUS.items() if device is not None and key in device.name), None)
    if gpu is not None and dtype != "float32":
        found.append(datasheet_roof(gpu))
    return found


def counter_points(runs: Iterable[CounterRun]) -> list[RoofPoint]:
    """Two points a run: over the bytes it asked for, where they were counted, and over those that reached DRAM. Time by the same counters."""
    points = []
    for run in runs:
        flops = attention_flops(run.problem, run.direction)
        speed = flops / (sum(kernel.time_ms for kernel in run.kernels) / 1e3)
        counted = sum(operation.bytes_moved for operation in run.counted)
        for bytes_are, moved in (("counted", counted), ("DRAM", run.dram_bytes)):
            if moved:
                points.append(
                    RoofPoint(run.peer, run.direction, bytes_are, flops / moved, speed, run.problem)
                )
    return points


def timed_points(measurement: Measurement, directions: Iterable[str]) -> list[RoofPoint]:
    """Points of a timed call over modelled bytes: S and P written and read where they are, else the compulsory bytes."""
    problem, points = measurement.problem, []
    for result in measurement.results:
        if result.timing is None or result.direction not in directions:
            continue
        if result.peer in MATERIALISING:
            moved = standard_bytes(problem, result.direction)
        else:
            moved = compulsory_bytes(problem, result.direction)
        flops = attention_flops(problem, result.direction)
        points.append(
            RoofPoint(
                result.peer,
                result.direction,
                "modelled",
                flops / moved,
                flops / result.timing.median_ms * 1e3,
                problem,
            )
        )
    return points
