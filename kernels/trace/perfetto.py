"""The schedule as Chrome trace JSON, which Perfetto opens."""

from __future__ import annotations

import json

import numpy as np

from kernels.trace.algorithm import Algorithm
from kernels.trace.schedule import Schedule, program_spans
from kernels.trace.trace import Trace


def chrome_trace(trace: Trace, schedule: Schedule, algorithm: Algorithm, gpu_name: str) -> str:
    """One track per SM, one slice per program. A modelled tile step counts as one microsecond.

    `gpu_name` is the GPU that a modelled schedule is for. The names of process and threads say whether the
    times are modelled.
    """
    micro = 1e-3 if schedule.measured else 1.0
    clock = _clock_words(trace, schedule, gpu_name)
    mark = "" if schedule.measured else " (modelled)"
    process = {"name": f"{algorithm.label}, {clock}"}
    events: list[dict] = [{"ph": "M", "name": "process_name", "pid": 0, "args": process}]
    for sm in np.unique(schedule.sm).tolist():
        thread = {"name": f"SM {sm}{mark}"}
        events.append({"ph": "M", "name": "thread_name", "pid": 0, "tid": sm, "args": thread})
    for span in program_spans(trace, schedule):
        in_rows = span.q_tile >= 0
        name = f"q tile {span.q_tile}, head {span.batch_head}" if in_rows else f"key tile {span.kv_tile}"
        times = {"ts": span.start * micro, "dur": (span.end - span.start) * micro}
        details = {"kernel": span.kernel, "program": span.program, "steps": span.steps}
        event = {"ph": "X", "name": name, "cat": span.kernel, "pid": 0, "tid": span.sm}
        events.append(event | times | {"args": details})
    notes = {"problem": trace.problem.as_dict(), "clock": clock, **trace.device.as_dict()}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": notes})


def _clock_words(trace: Trace, schedule: Schedule, gpu_name: str) -> str:
    if schedule.measured:
        return f"recorded by the GPU's timer: {trace.device.name}"
    return f"modelled: one program per SM of the {gpu_name}, a tile step is 1 us"
