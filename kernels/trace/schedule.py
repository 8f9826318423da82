"""When each program ran, and on which SM: by the GPU's own clock if the trace has one, else by a model."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kernels.problem.tiles import launch_order
from kernels.trace.algorithm import Algorithm
from kernels.trace.trace import Trace


@dataclass(frozen=True, eq=False)
class Schedule:
    """Start and end of every step of a trace, int64 (steps,), and its SM, int32 (steps,).

    Times are in ns if `measured`, else in tile steps.
    """

    start: np.ndarray
    end: np.ndarray
    sm: np.ndarray
    measured: bool


def step_schedule(trace: Trace, algorithm: Algorithm, sm_count: int) -> Schedule:
    """The recorded schedule, or a modelled one.

    The model: programs start in launch order, each on the SM that is free first, one program per SM. Every
    tile step takes the same time. A kernel starts when the one before it has ended. Of a sample, its
    programs alone are modelled.
    """
    if trace.start_ns is not None and trace.end_ns is not None and trace.sm is not None:
        return Schedule(trace.start_ns, np.maximum(trace.end_ns, trace.start_ns + 1), trace.sm, measured=True)
    start, sm = np.zeros(trace.steps, np.int64), np.zeros(trace.steps, np.int32)
    ready = 0
    for launch in _launches(trace):
        steps_of = _steps_by_program(trace, launch)
        in_order: Iterable[int] = steps_of
        if algorithm.kernels[launch[0]].longest_first:  # of a sample, some programs alone
            in_order = (program for program in launch_order(trace.problem) if program in steps_of)
        free = [(ready, unit) for unit in range(sm_count)]
        for program in in_order:
            begin, unit = heapq.heappop(free)
            own = steps_of[program]
            start[own] = begin + np.arange(len(own))
            sm[own] = unit
            heapq.heappush(free, (begin + len(own), unit))
        ready = max(end for end, _ in free)
    return Schedule(start, start + 1, sm, measured=False)


def _launches(trace: Trace) -> list[list[int]]:
    """Indices of the kernels that run one after the other.

    Parts of one launch, whose steps alternate program by program, are in one group.
    """
    groups: list[list[int]] = []
    for kernel in range(len(trace.kernels)):
        steps = np.flatnonzero(trace.kernel == kernel)
        if groups and len(steps) and steps[0] < np.flatnonzero(np.isin(trace.kernel, groups[-1])).max():
            groups[-1].append(kernel)
        else:
            groups.append([kernel])
    return groups


def _steps_by_program(trace: Trace, launch: list[int]) -> dict[int, np.ndarray]:
    """Steps of each program of a launch, by rising program."""
    steps = np.flatnonzero(np.isin(trace.kernel, launch))
    steps = steps[np.argsort(trace.program[steps], kind="stable")]
    programs, first = np.unique(trace.program[steps], return_index=True)
    return dict(zip(programs.tolist(), np.split(steps, first[1:]), strict=True))


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


def program_spans(trace: Trace, schedule: Schedule) -> list[ProgramSpan]:
    """Every program of the trace, ordered by kernel and start."""
    key = trace.kernel.astype(np.int64) * (int(trace.program.max()) + 1) + trace.program
    order = np.argsort(key, kind="stable")
    firsts = np.flatnonzero(np.diff(key[order], prepend=-1))
    spans = []
    for steps in np.split(order, firsts[1:]):
        first = steps[0]
        spans.append(
            ProgramSpan(
                kernel=trace.kernels[trace.kernel[first]],
                program=int(trace.program[first]),
                batch_head=int(trace.batch_head[first]),
                q_tile=int(trace.q_tile[first]),
                kv_tile=int(trace.kv_tile[first]),
                sm=int(schedule.sm[first]),
                start=int(schedule.start[steps].min()),
                end=int(schedule.end[steps].max()),
                steps=len(steps),
            )
        )
    return sorted(spans, key=lambda span: (trace.kernels.index(span.kernel), span.start))
