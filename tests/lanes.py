"""Lanes that are built by hand, of a Hopper kernel, of a plain one, and of two that follow each other.

Every duration is chosen here; no clock is behind them.
"""

import numpy as np

from kernels.device.backend import DeviceInfo
from kernels.problem import AttentionProblem
from kernels.trace.lanes import OTHER, PRODUCT, SOFTMAX, WAIT, Lanes

DEVICE = DeviceInfo("cuda", "Made-up GPU", "2.0", "3.0", "3.12", sm_count=4)
PROBLEM = AttentionProblem(q_heads=2, kv_heads=2, q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=16)
"""Two heads of 4 x 4 tiles."""
HOPPER = (
    *(("QK^T", PRODUCT), ("PV", PRODUCT), ("softmax", SOFTMAX), ("wait for K", WAIT)),
    *(("wait for PV", WAIT), ("write O", OTHER), ("place for K", WAIT)),
)
PLAIN = (("QK^T", PRODUCT), ("softmax", SOFTMAX), ("PV", PRODUCT))


def hopper_lanes(problem=PROBLEM, **changes):
    """One program per SM of two. PV of a key tile overlaps QK^T and softmax of the next one."""
    rows, spans = [], []
    tiles = [*np.ndindex(problem.heads, problem.q_tiles)]
    for program in range(2):
        now = 40.0 * program
        begin = now
        for head, q in tiles[program::2]:
            now = _hopper_tile(rows, program, now, head, q, problem.kv_tiles)
        spans.append((program, begin, now))
    labels = ("warpgroup 1", "warpgroup 2", "loads")
    return _lanes(problem, labels, HOPPER, rows, spans, **{"kernel": "flash3"} | changes)


def _hopper_tile(rows, program, now, head, q, kv_tiles):
    for lane, late in ((0, 0.0), (1, 150.0)):
        at = now + late
        for kv in range(kv_tiles):
            # PV stands beside QK^T of the next tile.
            for activity, begin, end in ((3, 0, 20), (0, 20, 120), (2, 120, 260), (1, 280, 400)):
                rows.append((program, lane, activity, head, q, kv, at + begin, at + end))
            at += 280
        rows.append((program, lane, 4, head, q, kv_tiles - 1, at, at + 120))
        rows.append((program, lane, 5, head, q, -1, at + 120, at + 160))
    for kv in range(kv_tiles):
        rows.append((program, 2, 6, head, q, kv, now + 280 * kv, now + 280 * kv + 90))
    return now + 150 + 280 * kv_tiles + 160


def plain_lanes(problem=PROBLEM, **changes):
    """One program per query tile, two at a time on each of two SMs."""
    rows, spans = [], []
    free = [0.0, 10.0, 30.0, 45.0]
    for program, (head, q) in enumerate(np.ndindex(problem.heads, problem.q_tiles)):
        place = int(np.argmin(free))
        now = begin = free[place]
        for kv in range(problem.kv_tiles):
            for activity, length in ((0, 130.0), (1, 150.0), (2, 140.0)):
                rows.append((program, 0, activity, head, q, kv, now, now + length))
                now += length
        free[place] = now
        spans.append((place % 2, begin, now))
    return _lanes(problem, ("program",), PLAIN, rows, spans, **{"kernel": "flash2"} | changes)


BACKWARD = (
    *(("wait for Q", WAIT), ("S^T", PRODUCT), ("P^T", SOFTMAX), ("dK", PRODUCT), ("write dK, dV", OTHER)),
    *(("wait for K", WAIT), ("S", PRODUCT), ("P", SOFTMAX), ("dQ", PRODUCT), ("write dQ", OTHER)),
)


def backward_lanes(problem=PROBLEM, **changes):
    """The plain backward kernels on two SMs: one program at a time per key tile, then two per query tile."""
    rows, spans, free = [], [], [[0.0], [10.0]]
    for head, kv in np.ndindex(problem.heads, problem.kv_tiles):
        _backward_program(rows, spans, free, 0, [(head, q, kv) for q in range(problem.q_tiles)])
    pause = max(max(each) for each in free) + 500.0
    free = [[pause, pause + 70], [pause + 20, pause + 90]]
    for head, q in np.ndindex(problem.heads, problem.q_tiles):
        _backward_program(rows, spans, free, 1, [(head, q, kv) for kv in range(problem.kv_tiles)])
    labels = ("dK, dV", "dQ")
    return _lanes(problem, labels, BACKWARD, rows, spans, **{"kernel": "backward_plain"} | changes)


def _backward_program(rows, spans, free, lane, tiles):
    program, sm = len(spans), min((0, 1), key=lambda each: min(free[each]))
    now = begin = min(free[sm])
    free[sm].remove(begin)
    first = 5 * lane  # activity of this kernel
    for tile in tiles:
        for activity, length in ((0, 30.0), (1, 100.0), (2, 60.0), (3, 120.0)):
            rows.append((program, lane, first + activity, *tile, now, now + length))
            now += length
    rows.append((program, lane, first + 4, *tiles[-1], now, now + 50))
    free[sm].append(now + 50)
    spans.append((sm, begin, now + 50))


def _lanes(problem, labels, activities, rows, spans, **changes):
    rows = sorted(rows, key=lambda row: (row[0], row[1], row[6]))
    *columns, begin, end = (np.array(values) for values in zip(*rows, strict=True))
    names = ("program", "lane", "activity", "batch_head", "q_tile", "kv_tile")
    types = (np.int32, np.int8, np.int8, np.int32, np.int32, np.int32)
    named = zip(names, columns, types, strict=True)
    events = {f"event_{name}": values.astype(dtype) for name, values, dtype in named}
    sm, starts, ends = (np.array(values) for values in zip(*spans, strict=True))
    fields = {
        "problem": problem,
        "device": DEVICE,
        "recorded_at": "2026-11-22T10:00:00Z",
        "lanes": labels,
        "activities": activities,
        "plain_us": ends.max() / 1e3,
        "marked_us": ends.max() / 1e3 * 1.05,
        "clock_ghz": 1.5,
        "event_begin_ns": begin.astype(np.float32),
        "event_end_ns": end.astype(np.float32),
        "program_sm": sm.astype(np.int32),
        "program_begin_ns": starts.astype(float),
        "program_end_ns": ends.astype(float),
    }
    return Lanes(**fields | events | _sums(activities, events, begin, end, sm, starts, ends) | changes)


def _sums(activities, events, begin, end, sm, starts, ends):
    """Shares of every SM, by a grid of moments 5 ns apart."""
    sms = np.unique(sm)
    kinds = np.array([activities[number][1] for number in events["event_activity"]])
    lane, activity = events["event_lane"], events["event_activity"]
    having = np.array([len(np.unique(lane[activity == number])) for number in range(len(activities))])
    event_sm = sm[events["event_program"]]
    sums = {name: np.zeros(len(sms)) for name in ("busy", "product", "softmax", "hidden")}
    activity_ns = np.zeros((len(sms), len(activities)))
    sums["lane"] = np.zeros_like(activity_ns)
    for row, number in enumerate(sms):
        own = event_sm == number
        moments = np.arange(0, ends.max(), 5.0) + 2.5
        during = (begin[own, None] <= moments) & (moments < end[own, None])
        product = during[kinds[own] == PRODUCT].any(axis=0)
        softmax = during[kinds[own] == SOFTMAX]
        programs = sm == number
        sums["busy"][row] = ends[programs].max() - starts[programs].min()
        sums["product"][row] = 5 * product.sum()
        sums["softmax"][row] = 5 * softmax.sum()
        sums["hidden"][row] = 5 * softmax[:, product].sum()
        np.add.at(activity_ns[row], events["event_activity"][own], (end - begin)[own])
        sums["lane"][row] = having * (ends - starts)[programs].sum()
    fields = {f"sm_{name}_ns": values for name, values in sums.items()}
    return {"sm": sms.astype(np.int32), "sm_activity_ns": activity_ns} | fields
