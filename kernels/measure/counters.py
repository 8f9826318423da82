"""Hardware counters of attention per kernel: DRAM and L2 bytes, tensor-core use.

`kernels.measure.ncu` reads them. Importing this file needs neither torch nor triton.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
import re
from dataclasses import asdict, dataclass

from kernels.device.backend import DeviceInfo
from kernels.problem import AttentionProblem
from kernels.traffic.operations import Operation

BASIC_METRICS = (
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_bytes.sum",
)
TENSOR_METRICS = (
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_tensor_op_gmma_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
)
"""Share of the tensor cores' peak. Each chip has some of these metrics; the first one that it has is used."""
MORE_METRICS = (
    *TENSOR_METRICS,
    "lts__t_sector_hit_rate.pct",
    "l1tex__m_xbar2l1tex_read_bytes.sum",
    "l1tex__m_l1tex2xbar_write_bytes.sum",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
)
NANOSECONDS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
NANOSECONDS |= {"nsecond": 1, "usecond": 1e3, "msecond": 1e6, "second": 1e9}
BYTES = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12}
UNITS = NANOSECONDS | BYTES
"""Factor from a unit of ncu to the base unit. Other units, such as %, are kept."""
MARKER = "spin_kernel"
"""The kernel of torch.cuda._sleep, which is launched before each call to separate the calls in ncu's list."""


@dataclass(frozen=True)
class KernelCounters:
    """One kernel launch: its name, and ncu's metrics in base units (bytes, nanoseconds, percent)."""

    name: str
    metrics: dict[str, float]

    @property
    def short_name(self) -> str:
        """The function's own name: without namespaces, template and call arguments."""
        bare = re.sub(r"<unnamed>|\(anonymous namespace\)", "", self.name.removeprefix("void "))
        return re.split(r"[<(]", bare, maxsplit=1)[0].rsplit("::", 1)[-1] or self.name

    @property
    def time_ms(self) -> float:
        """Duration on the GPU."""
        return self.metrics["gpu__time_duration.sum"] / 1e6

    @property
    def dram_read_bytes(self) -> float:
        """Bytes read from DRAM."""
        return self.metrics["dram__bytes_read.sum"]

    @property
    def dram_written_bytes(self) -> float:
        """Bytes written to DRAM."""
        return self.metrics["dram__bytes_write.sum"]

    @property
    def dram_bytes(self) -> float:
        """Bytes read from DRAM and written to it."""
        return self.dram_read_bytes + self.dram_written_bytes

    @property
    def l2_bytes(self) -> float:
        """Bytes that crossed the L2 cache."""
        return self.metrics["lts__t_bytes.sum"]

    @property
    def tensor_percent(self) -> float | None:
        """Percent of the time in which the tensor cores worked; None if no such counter was read."""
        return next((self.metrics[name] for name in TENSOR_METRICS if name in self.metrics), None)


@dataclass(frozen=True)
class CounterRun:
    """One call of one peer: its kernels in launch order, each with an empty L2, and its requested bytes."""

    problem: AttentionProblem
    peer: str
    direction: str
    device: DeviceInfo
    recorded_at: str
    kernels: tuple[KernelCounters, ...]
    counted: tuple[Operation, ...] = ()
    """Requested bytes, counted under TRACE by our kernels, and from its tensors for naive attention.

    Empty for other peers.
    """

    @property
    def dram_bytes(self) -> float:
        """Bytes read from DRAM and written to it by all kernels."""
        return sum(kernel.dram_bytes for kernel in self.kernels)

    @property
    def l2_bytes(self) -> float:
        """Bytes that crossed the L2 cache in all kernels."""
        return sum(kernel.l2_bytes for kernel in self.kernels)

    def as_dict(self) -> dict:
        """Field names to plain values, fit for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict) -> CounterRun:
        """The reverse of `as_dict`. Raises KeyError for a kernel without one of BASIC_METRICS."""
        for kernel in values["kernels"]:
            for name in BASIC_METRICS:
                kernel["metrics"][name]  # raises
        return cls(
            problem=AttentionProblem.from_dict(values["problem"]),
            peer=values["peer"],
            direction=values["direction"],
            device=DeviceInfo(**values["device"]),
            recorded_at=values["recorded_at"],
            kernels=tuple(KernelCounters(**kernel) for kernel in values["kernels"]),
            counted=tuple(Operation(**operation) for operation in values.get("counted", [])),
        )


def parse_csv(text: str, metrics: tuple[str, ...]) -> list[KernelCounters]:
    """The kernels of ncu's raw page: a header line, a line of units, then one line per kernel.

    Metrics that ncu left empty are left out.
    """
    table = "\n".join(line for line in text.splitlines() if line.startswith('"'))
    rows = list(csv.DictReader(io.StringIO(table)))
    if not rows:
        return []
    units, *kernels = rows
    return [KernelCounters(row["Kernel Name"], _metrics(row, units, metrics)) for row in kernels]


def _metrics(row: dict[str, str], units: dict[str, str], names: tuple[str, ...]) -> dict[str, float]:
    values = {}
    for name in names:
        with contextlib.suppress(ValueError):  # "n/a", or no such column
            value = float((row.get(name) or "").replace(",", ""))
            if math.isfinite(value):  # ncu writes "nan" for 0 / 0
                values[name] = value * UNITS.get(units.get(name, ""), 1)
    return values


def split_at_markers(kernels: list[KernelCounters]) -> list[tuple[KernelCounters, ...]]:
    """The kernels of each call.

    A marker comes before each call; kernels before the first marker are dropped.
    """
    calls: list[list[KernelCounters]] = []
    for kernel in kernels:
        if MARKER in kernel.name:
            calls.append([])
        elif calls:
            calls[-1].append(kernel)
    return [tuple(call) for call in calls]
