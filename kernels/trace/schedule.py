"""When each program ran and on which SM: by the GPU's own clock where a trace has one, else a model of waves over the SMs."""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass

import numpy as np

from kernels.problem.tiles import launch_order
from kernels.trace.trace import Trace

LAST_TILES_FIRST = ("_attn_fwd", "_attn_bwd_dq")
"""Kernels that are launched in the order of `tiles.launch_order`; programs of the others are launched as they are numbered."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """Start and end of every step of a trace: int64 (steps,), in ns where `measured`, else in tile steps; and its SM, int32 (steps,)."""

    start: np.ndarray
    end: np.ndarray
    sm: np.ndarray
    measured: bool


def step_schedule(trace: Trace, sm_count: int) -> Schedule:
    """The recorded schedule, or the modelled one: programs start in launch order on the SM that is free first, one program an SM,
    every tile step takes the same time, and a kernel starts when the one before it has ended."""
    if trace.start_ns is not None:
        return Schedule(trace.start_ns, np.maximum(trace.end_ns, trace.start_ns + 1), trace.sm, measured=True)
    start, sm = np.zeros(trace.steps, np.int64), np.zeros(trace.steps, np.int32)
    ready = 0
    for kernel in _launches(trace):
        members = np.flatnonzero(np.isin(trace.kernel, kernel))
        free = [(ready, unit) for unit in range(sm_count)]
        members = members[np.argsort(trace.program[members], kind="stable")]
        programs, first = np.unique(trace.program[members], return_index=True)
        steps_of = dict(zip(programs.tolist(), np.split(members, first[1:]), strict=True))
        in_reverse = trace.kernels[kernel[0]] in LAST_TILES_FIRST
        for program in launch_order(trace.problem) if in_reverse else programs.tolist():
            begin, unit = heapq.heappop(free)
            own = steps_of[program]
            start[own] = begin + np.arange(len(own))
            sm[own] = unit
            heapq.heappush(free, (begin + len(own), unit))
        ready = int(start[members].max()) + 1
    return Schedule(start, start + 1, sm, measured=False)


def _launches(trace: Trace) -> list[list[int]]:
    """Kernels that run one after the other; parts of one launch, whose steps alternate program by program, stand together."""
    groups: list[list[int]] = []
    for kernel in range(len(trace.kernels)):
        steps = np.flatnonzero(trace.kernel == kernel)
        if groups and len(steps) and steps[0] < np.flatnonzero(np.isin(trace.kernel, groups[-1])).max():
            groups[-1].append(kernel)
        else:
            groups.append([kernel])
    return groups


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
    """Every program of the trace in order of kernel and start."""
    key = trace.kernel.astype(np.int64) * (int(trace.program.max()) + 1) + trace.program
    order = np.argsort(key, kind="stable")
    firsts = np.flatnonzero(np.diff(key[order], prepend=-1))
    spans = []
    for steps in np.split(order, firsts[1:]):
        spans.append(
            ProgramSpan(
                kernel=trace.kernels[trace.kernel[steps[0]]],
                **{
                    name: int(getattr(trace, name)[steps[0]])
                    for name in ("program", "batch_head", "q_tile", "kv_tile")
                },
                sm=int(schedule.sm[steps[0]]),
                start=int(schedule.start[steps].min()),
                end=int(schedule.end[steps].max()),
                steps=len(steps),
            )
        )
    return sorted(spans, key=lambda span: (trace.kernels.index(span.kernel), span.start))


def chrome_trace(trace: Trace, schedule: Schedule) -> str:
    """The timeline as Chrome trace JSON, which Perfetto opens: a track an SM, a slice a program. A modelled step counts as one microsecond."""
    micro = 1e-3 if schedule.measured else 1.0
    events = [
        {
            "ph": "M",
            "name": "process_name",
            "pid": 0,
            "args": {"name": f"{trace.device.name}: {trace.algorithm}"},
        }
    ]
    events += [
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": sm, "args": {"name": f"SM {sm}"}}
        for sm in np.unique(schedule.sm).tolist()
    ]
    for span in program_spans(trace, schedule):
        tile = (
            f"q tile {span.q_tile}, head {span.batch_head}"
            if span.q_tile >= 0
            else f"key tile {span.kv_tile}"
        )
        event = {"ph": "X", "name": tile, "cat": span.kernel, "pid": 0, "tid": span.sm}
        event |= {"ts": span.start * micro, "dur": (span.end - span.start) * micro}
        events.append(event | {"args": {"kernel": span.kernel, "program": span.program, "steps": span.steps}})
    clock = "the GPU's global timer" if schedule.measured else "modelled: a tile step is 1 us"
    notes = {"problem": trace.problem.as_dict(), "clock": clock, **trace.device.as_dict()}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": notes})
