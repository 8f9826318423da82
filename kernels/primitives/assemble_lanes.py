"""Runs kernels with marks, times them with and without, and makes Lanes of their marks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from kernels.device.backend import device_info, utc_now
from kernels.device.clocks import clock_for
from kernels.device.runtime import BACKEND
from kernels.primitives.marks import KV_TILE, Q_TILE, LaneBuffers, make_lane_buffers
from kernels.problem import AttentionProblem
from kernels.trace.lanes import PRODUCT, SOFTMAX, Activity, LaneRole, Lanes, begins_in_turn

MAX_EVENTS = 5000
"""Events are kept of as many SMs as fit, but at least of one."""
CYCLES = 1 << 32
"""A mark holds the cycle counter up to this."""
TIMED_S = 0.1
"""Seconds of timed calls with marks, and without."""


@dataclass(frozen=True)
class LaneLaunch:
    """A launch of a kernel that can set marks, and a role for each lane of a program."""

    roles: tuple[LaneRole, ...]
    """Of the lanes of a program. The last one writes down the tiles."""
    programs: int
    turns: int
    """Most turns of a lane."""

    def make_buffers(self) -> LaneBuffers:
        """Empty buffers for its marks."""
        return make_lane_buffers(self.programs, len(self.roles), self.turns)


@dataclass(frozen=True)
class MarkedCall:
    """A call that launches kernels one after the other, with marks or without."""

    call: Callable[..., object]
    """Takes for each launch its buffers, or None to launch it without marks."""
    launches: tuple[LaneLaunch, ...]

    @property
    def roles(self) -> tuple[LaneRole, ...]:
        """Of all lanes: each launch has its own, in launch order."""
        return tuple(role for launch in self.launches for role in launch.roles)

    @property
    def labels(self) -> tuple[str, ...]:
        """A label for each lane."""
        return tuple(role.label.format(number) for number, role in enumerate(self.roles, 1))

    @property
    def activities(self) -> tuple[tuple[str, str], ...]:
        """(name, kind) of all activities, each once."""
        return tuple(dict.fromkeys((each.name, each.kind) for role in self.roles for each in role.activities))

    @property
    def launch_of(self) -> np.ndarray:
        """int (programs,): number of its launch. Programs are numbered through all launches."""
        return np.repeat(np.arange(len(self.launches)), [launch.programs for launch in self.launches])


def measured_lanes(problem: AttentionProblem, kernel: str, marked: MarkedCall) -> Lanes:
    """The lanes of a call, on a GPU. Its times are medians, measured in turn."""
    buffers = [launch.make_buffers() for launch in marked.launches]
    clock = clock_for(BACKEND)
    with clock.context():
        prepared = {
            "plain": clock.prepare(partial(marked.call, *[None for _ in buffers])),
            "marked": clock.prepare(partial(marked.call, *buffers)),
        }
        timings = clock.time_prepared(prepared, TIMED_S)
        prepared["marked"]()  # once more, after all that was timed: the marks that stay
        times = (timings["plain"].median_ms * 1e3, timings["marked"].median_ms * 1e3)
        return assemble_lanes(problem, kernel, marked, buffers, times)


@dataclass(frozen=True)
class _Events:
    """Events of all programs, one array each; times are cycles since the program's start."""

    program: np.ndarray
    lane: np.ndarray
    activity: np.ndarray
    q_tile: np.ndarray
    kv_tile: np.ndarray
    begin: np.ndarray
    end: np.ndarray


def assemble_lanes(
    problem: AttentionProblem,
    kernel: str,
    marked: MarkedCall,
    buffers: Sequence[LaneBuffers],
    times_us: tuple[float, float],
) -> Lanes:
    """The Lanes of a call's marks, one buffer per launch; `times_us` are its times without and with them."""
    clock = np.concatenate([each.clock.cpu().numpy() for each in buffers])
    marks = [each.marks.cpu().numpy() for each in buffers]
    events = _events(marked, marks, clock[:, 1])
    rate = _cycles_per_ns(clock)
    sms, place = np.unique(clock[:, 4], return_inverse=True)
    # An SM's programs share its cycle counter, which is finer than the global timer.
    first = np.array([np.flatnonzero(place == each)[0] for each in range(len(sms))])
    first = first[place]
    begin_ns = clock[first, 0] + (clock[:, 1] - clock[first, 1]) / rate
    begin_ns -= begin_ns.min()
    end_ns = begin_ns + (clock[:, 3] - clock[:, 1]) / rate
    at = begin_ns[events.program]
    timed = (at + events.begin / rate, at + events.end / rate)
    figures = _by_sm(marked, events, timed, place, (begin_ns, end_ns))
    return Lanes(
        problem=problem,
        kernel=kernel,
        device=device_info(BACKEND),
        recorded_at=utc_now(),
        lanes=marked.labels,
        activities=marked.activities,
        plain_us=times_us[0],
        marked_us=times_us[1],
        clock_ghz=rate,
        **_event_fields(problem.q_tiles, events, timed, _kept(events, place)),
        program_sm=clock[:, 4].astype(np.int32),
        program_begin_ns=begin_ns,
        program_end_ns=end_ns,
        sm=sms.astype(np.int32),
        **figures,
    )


def _event_fields(
    q_tiles: int, events: _Events, timed: tuple[np.ndarray, np.ndarray], kept: np.ndarray
) -> dict[str, np.ndarray]:
    """The fields of Lanes with one value per event that is kept."""
    q_tile = events.q_tile[kept]
    return {
        "event_program": events.program[kept].astype(np.int32),
        "event_lane": events.lane[kept].astype(np.int8),
        "event_activity": events.activity[kept].astype(np.int8),
        "event_batch_head": np.where(q_tile < 0, -1, q_tile // q_tiles).astype(np.int32),
        "event_q_tile": np.where(q_tile < 0, -1, q_tile % q_tiles).astype(np.int32),
        "event_kv_tile": events.kv_tile[kept].astype(np.int32),
        "event_begin_ns": timed[0][kept].astype(np.float32),
        "event_end_ns": timed[1][kept].astype(np.float32),
    }


def _cycles_per_ns(clock: np.ndarray) -> float:
    """By both clocks, from the programs' starts to their ends."""
    ns, cycles = clock[:, 2] - clock[:, 0], clock[:, 3] - clock[:, 1]
    return float(cycles.sum() / ns.sum())


def _events(marked: MarkedCall, marks: Sequence[np.ndarray], starts: np.ndarray) -> _Events:
    """Every activity of every turn of which both marks are set, by program, lane and begin.

    Programs and lanes are numbered through all launches; `marks` are those of each.
    """
    names = marked.activities
    found: list[np.ndarray] = []
    programs = lanes = 0
    for launch, own in zip(marked.launches, marks, strict=True):
        of_launch = starts[programs : programs + launch.programs]
        shift = np.array([programs, lanes, 0, 0, 0, 0, 0])[:, None]
        found += [each + shift for each in _events_of_launch(launch, own, of_launch, names)]
        programs, lanes = programs + launch.programs, lanes + len(launch.roles)
    events = np.concatenate(found, axis=1)
    program, lane, activity, begin = events[0], events[1], events[2], events[5]
    end = events[6] = np.maximum(events[6], begin)  # of the warps of a lane, any one's mark stands
    is_own = np.array([kind != PRODUCT for _, kind in names])[activity]
    events[5] = begins_in_turn(program, lane, is_own, begin, end)
    order = np.lexsort((end, events[5], lane, program))
    return _Events(*events[:, order])


def _events_of_launch(
    launch: LaneLaunch, marks: np.ndarray, starts: np.ndarray, names: tuple[tuple[str, str], ...]
) -> list[np.ndarray]:
    """int (7, events) of each activity of each lane: the fields of _Events."""
    found = []
    for lane, role in enumerate(launch.roles):
        own = marks[:, lane]
        since_start = (own.astype(np.int64) - starts[:, None, None]) % CYCLES
        for activity in role.activities:
            begin_set, begin = _mark(own, since_start, role, activity.begin)
            end_set, end = _end(own, since_start, role, activity)
            program, turn = np.nonzero(begin_set & end_set)
            of_turn = turn - activity.turns_back
            tiles = marks[program, -1, np.maximum(of_turn, 0)][:, [Q_TILE.value, KV_TILE.value]] - 1
            tiles[of_turn < 0] = -1
            number = names.index((activity.name, activity.kind))
            columns = (program, np.full_like(program, lane), np.full_like(program, number), *tiles.T)
            found.append(np.stack([*columns, begin[program, turn], end[program, turn]]))
    return found


def _mark(
    own: np.ndarray, since_start: np.ndarray, role: LaneRole, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Whether a mark is set in each turn of each program, and when."""
    number = role.number(name)
    return own[:, :, number] != 0, since_start[:, :, number]


def _end(
    own: np.ndarray, since_start: np.ndarray, role: LaneRole, activity: Activity
) -> tuple[np.ndarray, np.ndarray]:
    """The same for the end of an activity, which may be a mark of the next turn."""
    is_set, when = _mark(own, since_start, role, activity.end)
    if not activity.or_next:
        return is_set, when
    next_set, next_when = _mark(own, since_start, role, activity.or_next)
    next_set, next_when = np.roll(next_set, -1, axis=1), np.roll(next_when, -1, axis=1)
    next_set[:, -1] = False
    return is_set | next_set, np.where(is_set, when, next_when)


def _kept(events: _Events, place: np.ndarray) -> np.ndarray:
    """Which events are kept: those of the first SMs, by their first programs."""
    of_program = np.bincount(events.program, minlength=len(place))
    of_sm = np.bincount(place, weights=of_program)
    order = list(dict.fromkeys(place))
    count = max(int(np.searchsorted(np.cumsum(of_sm[order]), MAX_EVENTS, side="right")), 1)
    return np.isin(place[events.program], order[:count])


def _by_sm(
    marked: MarkedCall,
    events: _Events,
    timed: tuple[np.ndarray, np.ndarray],
    place: np.ndarray,
    programs: tuple[np.ndarray, np.ndarray],
) -> dict[str, np.ndarray]:
    """The fields of Lanes with one value per SM."""
    kinds = np.array([kind for _, kind in marked.activities])[events.activity]
    sm = place[events.program]
    count = place.max() + 1
    product, hidden, softmax = (np.zeros(count) for _ in range(3))
    activity_ns = np.zeros((count, len(marked.activities)))
    np.add.at(activity_ns, (sm, events.activity), timed[1] - timed[0])
    for each in range(count):
        products = (sm == each) & (kinds == PRODUCT)
        begins, ends = _union(timed[0][products], timed[1][products])
        product[each] = (ends - begins).sum()
        in_softmax = (sm == each) & (kinds == SOFTMAX)
        softmax[each] = (timed[1] - timed[0])[in_softmax].sum()
        covered = [_covered(begins, ends, times[in_softmax]) for times in timed]
        hidden[each] = (covered[1] - covered[0]).sum()
    return {
        "sm_product_ns": product,
        "sm_softmax_ns": softmax,
        "sm_hidden_ns": hidden,
        "sm_activity_ns": activity_ns,
        **_program_times(marked, place, programs),
    }


def _program_times(
    marked: MarkedCall, place: np.ndarray, programs: tuple[np.ndarray, np.ndarray]
) -> dict[str, np.ndarray]:
    """The busy time of every SM, and that of its lanes with each activity: sums over the launches."""
    (begin_ns, end_ns), launch_of = programs, marked.launch_of
    busy = np.zeros(place.max() + 1)
    lane_ns = np.zeros((len(busy), len(marked.activities)))
    for number, launch in enumerate(marked.launches):
        own = [{(each.name, each.kind) for each in role.activities} for role in launch.roles]
        lanes_with = np.array([sum(name in each for each in own) for name in marked.activities])
        for each in range(len(busy)):
            here = (place == each) & (launch_of == number)
            if here.any():
                busy[each] += end_ns[here].max() - begin_ns[here].min()
                lane_ns[each] += (end_ns[here] - begin_ns[here]).sum() * lanes_with
    return {"sm_busy_ns": busy, "sm_lane_ns": lane_ns}


def _union(begins: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Intervals that do not overlap and cover the same times."""
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], np.maximum.accumulate(ends[order])
    starts_anew = np.ones(len(begins), bool)
    starts_anew[1:] = begins[1:] > ends[:-1]
    last = np.append(starts_anew[1:], True)[: len(begins)]
    return begins[starts_anew], ends[last]


def _covered(begins: np.ndarray, ends: np.ndarray, until: np.ndarray) -> np.ndarray:
    """How much of the time before each of `until` lies in the intervals, which do not overlap."""
    if not len(begins):
        return np.zeros_like(until)
    points = np.stack([begins, ends], axis=1).ravel()
    lengths = np.cumsum(np.stack([np.zeros_like(begins), ends - begins], axis=1).ravel())
    return np.interp(until, points, lengths)
