"""The schedule, and lanes beside it, as Chrome trace JSON, which Perfetto opens."""

import json
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from kernels.trace.algorithm import Algorithm
from kernels.trace.lane_rows import tracks_of
from kernels.trace.lanes import Lanes
from kernels.trace.schedule import Schedule, program_spans
from kernels.trace.trace import Trace


def chrome_trace(
    trace: Trace,
    schedule: Schedule,
    algorithm: Algorithm,
    gpu_name: str,
    lanes: Sequence[tuple[str, Lanes]] = (),
) -> str:
    """One track per SM, one slice per program. A modelled tile step counts as one microsecond.

    `gpu_name` is the GPU that a modelled schedule is for. The names of process and threads say whether the
    times are modelled. `lanes`, each with the label of its kernel, become a process per SM that has
    events, with a thread per lane and track.
    """
    micro, mark = 1.0, " (modelled)"
    clock = f"modelled: one program per SM of the {gpu_name}, a tile step is 1 us"
    if schedule.measured:
        micro, mark, clock = 1e-3, "", f"recorded by the GPU's timer: {trace.device.name}"
    events = [_name("process_name", 0, 0, f"{algorithm.label}, {clock}")]
    events += [_name("thread_name", 0, sm, f"SM {sm}{mark}") for sm in np.unique(schedule.sm).tolist()]
    for span in program_spans(trace, schedule):
        in_rows = span.q_tile >= 0
        name = f"q tile {span.q_tile}, head {span.batch_head}" if in_rows else f"key tile {span.kv_tile}"
        details = {"kernel": span.kernel, "program": span.program, "steps": span.steps}
        event = _slice(name, span.kernel, details, span.start * micro, span.end * micro)
        events.append(event | {"pid": 0, "tid": span.sm})
    for label, each in lanes:
        events += _lane_events(label, each, first_pid=1 + max(event["pid"] for event in events))
    notes = {"problem": trace.problem.as_dict(), "clock": clock, **asdict(trace.device)}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": notes})


def _lane_events(label: str, lanes: Lanes, first_pid: int) -> list[dict]:
    """Lanes of launches of their own: their clock does not start with that of the schedule."""
    events: list[dict] = []
    pids: dict[int, int] = {}
    for tid, track in enumerate(tracks_of(lanes)):
        if track.sm not in pids:
            pids[track.sm] = first_pid + len(pids)
            words = f"SM {track.sm}, {label}, lanes by its cycle counter: {lanes.device.name}"
            events.append(_name("process_name", pids[track.sm], 0, words))
        where = {"pid": pids[track.sm], "tid": tid}
        kind = "products under way" if track.is_product else "what its warps do"
        events.append(_name("thread_name", **where, words=f"{track.row}: {kind}"))
        for event in track.events.tolist():
            name, kind = lanes.activities[lanes.event_activity[event]]
            fields = ("program", "batch_head", "q_tile", "kv_tile")
            about = {field: int(getattr(lanes, f"event_{field}")[event]) for field in fields}
            begin, end = (float(each[event]) / 1e3 for each in (lanes.event_begin_ns, lanes.event_end_ns))
            events.append(_slice(name, kind, about, begin, end) | where)
    return events


def _name(what: str, pid: int, tid: int, words: str) -> dict:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": words}}


def _slice(name: str, kind: str, about: dict, begin: float, end: float) -> dict:
    return {"ph": "X", "name": name, "cat": kind, "args": about, "ts": begin, "dur": end - begin}
