"""When each program ran, and on which SM: by the GPU's own clock if the trace has one, else by a model."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from kernels.device.gpus import Gpu
from kernels.problem.tiles import launch_order
from kernels.trace.algorithm import Algorithm
from kernels.trace.trace import Trace


def step_flops(trace: Trace, algorithm: Algorithm) -> np.ndarray:
    """float64 (steps,): modelled FLOPs of each tile step. Tiles count whole, as they are computed.

    Only products count (2 m n k each), as in FlashAttention's benchmarks. Kernels without a product count
    their few operations per row.
    """
    problem = trace.problem
    rows = problem.block_m * problem.head_dim
    products = np.array([2.0 * kernel.products * problem.block_n * rows for kernel in algorithm.kernels])
    per_row = np.array([float(kernel.row_flops * rows) for kernel in algorithm.kernels])
    visited = (trace.kv_tile >= 0) & (trace.q_tile >= 0)
    return products[trace.kernel] * visited + per_row[trace.kernel]


def modelled_ns(trace: Trace, algorithm: Algorithm, gpu: Gpu) -> np.ndarray:
    """float64 (steps,): the time of each step by a roofline.

    It is the longer of its counted bytes at the GPU's bandwidth and its modelled FLOPs at the GPU's peak.
    """
    moving = (trace.bytes_read + trace.bytes_written) / gpu.hbm_bandwidth
    return 1e9 * np.maximum(moving, step_flops(trace, algorithm) / gpu.fp16_flops)


@dataclass(frozen=True, eq=False)
class Schedule:
    """Start and end of every step of a trace, int64 (steps,), and its SM, int32 (steps,).

    Times are in ns, of the GPU's timer if `measured`.
    """

    start: np.ndarray
    end: np.ndarray
    sm: np.ndarray
    measured: bool


def step_schedule(trace: Trace, algorithm: Algorithm, gpu: Gpu) -> Schedule:
    """The recorded schedule, or a modelled one.

    The model: programs start in launch order, each on the SM that is free first, one program per SM. A step
    takes its `modelled_ns` at the SM's share of the GPU's bandwidth and peak. A kernel starts when the one
    before it has ended. Of a sample, its programs alone are modelled.
    """
    if trace.start_ns is not None and trace.end_ns is not None and trace.sm is not None:
        return Schedule(trace.start_ns, np.maximum(trace.end_ns, trace.start_ns + 1), trace.sm, measured=True)
    took = np.ceil(modelled_ns(trace, algorithm, gpu) * gpu.sm_count).astype(np.int64)
    end, sm = np.zeros(trace.steps, np.int64), np.zeros(trace.steps, np.int32)
    ready = 0
    for launch in sorted(set(algorithm.launches)):
        steps_of = _steps_by_program(trace, algorithm, launch)
        in_order: Iterable[int] = steps_of
        first = algorithm.kernels[algorithm.launches.index(launch)]
        if first.longest_first:  # of a sample, some programs alone
            in_order = (program for program in launch_order(trace.problem) if program in steps_of)
        free = [(ready, unit) for unit in range(gpu.sm_count)]
        for program in in_order:
            begin, unit = heapq.heappop(free)
            own = steps_of[program]
            end[own] = begin + np.cumsum(took[own])
            sm[own] = unit
            heapq.heappush(free, (int(end[own[-1]]), unit))
        ready = max(end for end, _ in free)
    return Schedule(end - took, end, sm, measured=False)


def _steps_by_program(trace: Trace, algorithm: Algorithm, launch: int) -> dict[int, np.ndarray]:
    """Steps of each program of a launch, by rising program."""
    steps = np.flatnonzero(np.array(algorithm.launches)[trace.kernel] == launch)
    steps = steps[np.argsort(trace.program[steps], kind="stable")]
    programs, first = np.unique(trace.program[steps], return_index=True)
    return dict(zip(programs.tolist(), np.split(steps, first[1:]), strict=False))  # no steps: no program


@dataclass(frozen=True)
class ProgramSpan:
    """One program on the timeline; times as in Schedule."""

    kernel: str
    program: int
    batch_head: int
    q_tile: int
    kv_tile: int
    sm: int
    start: int
    end: int
    steps: int


def program_spans(trace: Trace, schedule: Schedule, algorithm: Algorithm) -> list[ProgramSpan]:
    """Every program of the trace, ordered by launch and start."""
    spans = []
    for number, kernels in groupby(range(len(trace.kernels)), algorithm.launches.__getitem__):
        name = ", ".join(trace.kernels[kernel] for kernel in kernels)
        steps_of = _steps_by_program(trace, algorithm, number).items()
        for program, own in sorted(steps_of, key=lambda each: schedule.start[each[1]].min()):
            where = (trace.batch_head, trace.q_tile, trace.kv_tile, schedule.sm)
            head, q_tile, kv_tile, sm = (int(array[own[0]]) for array in where)
            start, end = int(schedule.start[own].min()), int(schedule.end[own].max())
            spans.append(ProgramSpan(name, program, head, q_tile, kv_tile, sm, start, end, len(own)))
    return spans
