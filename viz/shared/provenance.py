"""What is said of a run: where it is from, and what its algorithm is like. Pure: no streamlit."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from kernels.algorithms import algorithm_of
from kernels.device.backend import DeviceInfo
from kernels.measure.measurement import Measurement
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm

LOOKS = tomllib.loads(Path(__file__).with_name("looks.toml").read_text("utf-8"))


@dataclass(frozen=True)
class Looks:
    """The words for one algorithm, Markdown; `looks.toml` says where each stands."""

    headline: str
    chip_words: str


def looks_of(algorithm: Algorithm) -> Looks:
    return Looks(**LOOKS["default"] | LOOKS.get(algorithm.name, {}))


def trace_provenance(trace: Trace) -> str:
    """By what a trace was made, and when: "run by Triton 3.7.1's interpreter, 2026-11-22"."""
    device = trace.device
    on_gpu = f" on {device.name}" if device.backend == "cuda" else ""
    return f"run{on_gpu} {runner_words(algorithm_of(trace), device)}, {trace.recorded_at[:10]}"


def version_words(algorithm: Algorithm, device: DeviceInfo) -> str:
    """What runs the algorithm, with its version: "Triton 3.6.0" or "torch 2.13.0"."""
    return f"torch {device.torch}" if algorithm.runs_in == "torch" else f"Triton {device.triton}"


def library_versions(device: DeviceInfo) -> str:
    """The libraries of a machine: "torch 2.11.0, Triton 3.6.0"."""
    return f"torch {device.torch}, Triton {device.triton}"


def runner_words(algorithm: Algorithm, device: DeviceInfo) -> str:
    """How a device runs the algorithm: "by Triton 3.6.0's interpreter", "in torch 2.13.0, tile by tile"."""
    version = version_words(algorithm, device)
    if algorithm.runs_in == "torch":
        return f"in {version}, tile by tile"
    return f"by {version}" if device.backend == "cuda" else f"by {version}'s interpreter"


def measurement_source(measurement: Measurement) -> str:
    """Where a measurement is from: "NVIDIA H200, 2026-11-23, torch 2.11.0, Triton 3.6.0"."""
    device = measurement.device
    return f"{device.name}, {measurement.recorded_at[:10]}, {library_versions(device)}"
