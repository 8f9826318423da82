"""Runs kernels with marks, times them with and without, and makes Lanes of their marks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

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
NOT_SET = -1
"""In place of the cycles of a mark that is not set."""
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
    def activities(self) -> tuple[tuple[str, str], ...]:
        """(name, kind) of all activities, each once."""
        return tuple(dict.fromkeys((each.name, each.kind) for role in self.roles for each in role.activities))


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
        for each in buffers:  # a program may have had more turns in a call before
            each.marks.zero_()
        prepared["marked"]()
        times = (timings["plain"].median_ms * 1e3, timings["marked"].median_ms * 1e3)
        return assemble_lanes(problem, kernel, marked, buffers, times)


class _Events(NamedTuple):
    """Events of all programs, one array each; times are cycles since the program's start."""

    program: np.ndarray
    lane: np.ndarray
    activity: np.ndarray
    q_tile: np.ndarray
    """Numbered through all heads."""
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
    events = _events(marked, [each.marks.cpu().numpy() for each in buffers], clock[:, 1])
    ns, cycles = clock[:, 2] - clock[:, 0], clock[:, 3] - clock[:, 1]
    rate = float(cycles.sum() / ns.sum())
    # An SM's programs share its cycle counter, which is finer than the global timer.
    sms, first, place = np.unique(clock[:, 4], return_index=True, return_inverse=True)
    first = first[place]
    begin_ns = clock[first, 0] + (clock[:, 1] - clock[first, 1]) / rate
    begin_ns -= begin_ns.min()
    end_ns = begin_ns + cycles / rate
    at = begin_ns[events.program]
    timed = (at + events.begin / rate, at + events.end / rate)
    kept = _kept(place[events.program], place)
    q_tile = events.q_tile[kept]
    return Lanes(
        problem=problem,
        kernel=kernel,
        device=device_info(BACKEND),
        recorded_at=utc_now(),
        lanes=tuple(role.label.format(number) for number, role in enumerate(marked.roles, 1)),
        activities=marked.activities,
        plain_us=times_us[0],
        marked_us=times_us[1],
        clock_ghz=rate,
        event_program=events.program[kept].astype(np.int32),
        event_lane=events.lane[kept].astype(np.int8),
        event_activity=events.activity[kept].astype(np.int8),
        event_batch_head=np.where(q_tile < 0, -1, q_tile // problem.q_tiles).astype(np.int32),
        event_q_tile=np.where(q_tile < 0, -1, q_tile % problem.q_tiles).astype(np.int32),
        event_kv_tile=events.kv_tile[kept].astype(np.int32),
        event_begin_ns=timed[0][kept].astype(np.float32),
        event_end_ns=timed[1][kept].astype(np.float32),
        program_sm=clock[:, 4].astype(np.int32),
        program_begin_ns=begin_ns,
        program_end_ns=end_ns,
        sm=sms.astype(np.int32),
        **_event_times(marked, events, timed, place),
        **_program_times(marked, place, begin_ns, end_ns),
    )


def _events(marked: MarkedCall, marks: Sequence[np.ndarray], starts: np.ndarray) -> _Events:
    """Every activity of every turn of which both marks are set, by program, lane and begin.

    Programs and lanes are numbered through all launches; `marks` are those of each.
    """
    names = marked.activities
    found: list[np.ndarray] = []
    programs = lanes = 0
    for launch, own in zip(marked.launches, marks, strict=True):
        since_start = (own.astype(np.int64) - starts[programs:][: launch.programs, None, None, None]) % CYCLES
        since_start = np.where(own == 0, NOT_SET, since_start)
        for lane, role in enumerate(launch.roles):
            for activity in role.activities:
                program, turn, begin, end = _spans(since_start[:, lane], role, activity)
                of_turn = turn - activity.turns_back
                tiles = own[program, -1, np.maximum(of_turn, 0)][:, [Q_TILE.value, KV_TILE.value]] - 1
                tiles[of_turn < 0] = -1
                number = names.index((activity.name, activity.kind))
                same = np.ones_like(program)
                columns = (program + programs, same * (lane + lanes), same * number, *tiles.T, begin, end)
                found.append(np.stack(columns))
        programs, lanes = programs + launch.programs, lanes + len(launch.roles)
    events = np.concatenate(found, axis=1)
    program, lane, activity, _, _, begin, end = events
    end[:] = np.maximum(end, begin)  # of the warps of a lane, any one's mark stands
    is_own = np.array([kind != PRODUCT for _, kind in names])[activity]
    begin[:] = begins_in_turn(program, lane, is_own, begin, end)
    return _Events(*events[:, np.lexsort((end, begin, lane, program))])


def _spans(since_start: np.ndarray, role: LaneRole, activity: Activity) -> tuple[np.ndarray, ...]:
    """(program, turn, begin, end) of an activity of a lane, whose end may be a mark of the next turn."""
    begin, end = (since_start[:, :, role.number(name)] for name in (activity.begin, activity.end))
    if activity.or_next:
        following = np.roll(since_start[:, :, role.number(activity.or_next)], -1, axis=1)
        following[:, -1] = NOT_SET
        end = np.where(end == NOT_SET, following, end)
    program, turn = np.nonzero((begin != NOT_SET) & (end != NOT_SET))
    return program, turn, begin[program, turn], end[program, turn]


def _kept(sm: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Which events are kept, by their SM: those of the first SMs, by their first programs."""
    order = list(dict.fromkeys(place))
    of_sm = np.bincount(sm, minlength=len(order))
    count = max(int(np.searchsorted(np.cumsum(of_sm[order]), MAX_EVENTS, side="right")), 1)
    return np.isin(sm, order[:count])


def _event_times(
    marked: MarkedCall, events: _Events, timed: tuple[np.ndarray, np.ndarray], place: np.ndarray
) -> dict[str, np.ndarray]:
    kinds = np.array([kind for _, kind in marked.activities])[events.activity]
    sm, count = place[events.program], place.max() + 1
    product, hidden, softmax = (np.zeros(count) for _ in range(3))
    activity_ns = np.zeros((count, len(marked.activities)))
    np.add.at(activity_ns, (sm, events.activity), timed[1] - timed[0])
    for each in range(count):
        products, in_softmax = ((sm == each) & (kinds == kind) for kind in (PRODUCT, SOFTMAX))
        begins, ends = _union(timed[0][products], timed[1][products])
        product[each] = (ends - begins).sum()
        softmax[each] = (timed[1] - timed[0])[in_softmax].sum()
        covered = [_covered(begins, ends, times[in_softmax]) for times in timed]
        hidden[each] = (covered[1] - covered[0]).sum()
    sums = {"product": product, "softmax": softmax, "hidden": hidden, "activity": activity_ns}
    return {f"sm_{name}_ns": values for name, values in sums.items()}


def _program_times(
    marked: MarkedCall, place: np.ndarray, begin_ns: np.ndarray, end_ns: np.ndarray
) -> dict[str, np.ndarray]:
    """The busy time of every SM, and that of its lanes with each activity: sums over the launches."""
    launch_of = np.repeat(np.arange(len(marked.launches)), [launch.programs for launch in marked.launches])
    busy = np.zeros(place.max() + 1)
    lane_ns = np.zeros((len(busy), len(marked.activities)))
    for number, launch in enumerate(marked.launches):
        own = [{(each.name, each.kind) for each in role.activities} for role in launch.roles]
        lanes_with = np.array([sum(name in each for each in own) for name in marked.activities])
        for each in np.unique(place[launch_of == number]):
            here = (place == each) & (launch_of == number)
            busy[each] += end_ns[here].max() - begin_ns[here].min()
            lane_ns[each] += (end_ns[here] - begin_ns[here]).sum() * lanes_with
    return {"sm_busy_ns": busy, "sm_lane_ns": lane_ns}


def _union(begins: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Intervals that do not overlap and cover the same times."""
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], np.maximum.accumulate(ends[order])
    is_apart = begins[1:] > ends[:-1]
    any_at_all = np.ones(min(len(begins), 1), bool)
    return begins[np.append(any_at_all, is_apart)], ends[np.append(is_apart, any_at_all)]


def _covered(begins: np.ndarray, ends: np.ndarray, until: np.ndarray) -> np.ndarray:
    """How much of the time from 0 to each of `until` lies in the intervals, which do not overlap."""
    points = np.stack([begins, ends], axis=1).ravel()
    lengths = np.stack([np.zeros_like(begins), ends - begins], axis=1).ravel()
    return np.interp(until, np.append(0.0, points), np.append(0.0, np.cumsum(lengths)))
