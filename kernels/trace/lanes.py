"""What the warps of a kernel did and when, by the cycle counters of the SMs, as NumPy arrays.

A lane is a warpgroup, or a warp that only loads. Under its constexpr LANES the kernel sets marks: when a
lane asked for a tile, had it, had a product. An activity is the time between two marks.
"""

import functools
import itertools
from dataclasses import dataclass

import numpy as np

from kernels.device.backend import DeviceInfo
from kernels.file_format import ArrayFile
from kernels.problem import AttentionProblem
from kernels.trace.needs import Needs, Particular, TilesOf

PRODUCT, SOFTMAX, WAIT, OTHER = "product", "softmax", "wait", "other"
KINDS = (PRODUCT, SOFTMAX, WAIT, OTHER)


PLACE = "until what lies in its place in shared memory has been read"
"""What a load waits for."""


@dataclass(frozen=True)
class Activity:
    """What a lane does between two marks of a turn."""

    name: str
    kind: str
    """One of KINDS. A product is under way on the tensor cores while the lane does something else."""
    phase: str
    begin: str
    end: str
    turns_back: int = 0
    """How many turns before this one its key tile was taken up."""
    or_next: str = ""
    """The mark of the next turn that ends it if `end` is not set."""
    about: str = ""
    """What its name does not tell a reader: until when it waits."""


@dataclass(frozen=True)
class LaneRole:
    """What lanes of one kind do in a turn of their loop: a round of the inner loop, for most kernels."""

    label: str
    """Its name; "{}" stands for the number of the lane among all of a program."""
    marks: tuple[str, ...]
    activities: tuple[Activity, ...]
    kernel: str = ""
    """Name of the kernel whose phases they are; "" if it is every kernel of the algorithm that has them."""

    def number(self, mark: str) -> int:
        return self.marks.index(mark)


@dataclass(frozen=True)
class LaneKernel(Particular):
    """A kernel that sets marks, or several of one algorithm that are launched one after the other."""

    name: str
    """In requests, and in files of lanes and their names. No two have the same."""
    label: str
    module: str
    """Module with `run_lanes(problem)`, which a GPU runs."""
    roles: tuple[LaneRole, ...]
    """What its lanes can do. An activity of the same name belongs to one phase in all of them."""
    words: str = ""
    """What a reader has to know of it beside the run that is played."""
    needs: Needs | None = None
    """What it needs of the machine and the problem; None if it runs on every GPU and takes every problem."""
    own_tiles: TilesOf | None = None
    """Its own tiles; None if they are those of the problem."""
    as_played: bool = False
    """Whether its lanes of the presets are recorded with the presets' own tiles, as its runs are."""

    @property
    def launches(self) -> int:
        """How many kernels are launched one after the other."""
        return len({role.kernel for role in self.roles})

    def facts(self, activity: str) -> dict[str, str]:
        """The kernel, the phase and what is told about an activity; "" for each if no role has it."""
        for role in self.roles:
            for each in role.activities:
                if each.name == activity:
                    return {"kernel": role.kernel, "phase": each.phase, "about": each.about}
        return {"kernel": "", "phase": "", "about": ""}


@dataclass(frozen=True, eq=False)
class Lanes(ArrayFile):
    """The events of some programs, and the shares of every SM. Times count from the first program's start.

    `events` below is the number of entries, which are ordered by program, lane and begin.
    What a lane does itself (all but products) does not overlap.
    """

    FORMAT = "flash-attention-lanes"
    VERSIONS = (1,)

    problem: AttentionProblem
    kernel: str
    """Name of the LaneKernel."""
    device: DeviceInfo
    recorded_at: str
    """UTC date and time, ISO 8601."""
    lanes: tuple[str, ...]
    """Labels of the lanes of a program. If several kernels are launched, each has lanes of its own."""
    activities: tuple[tuple[str, str], ...]
    """(name, kind) of each activity."""
    plain_us: float
    """Time of the kernel without marks, measured beside it in the same launch shape. If several kernels are
    launched one after the other, it is from the start of the first to the end of the last."""
    marked_us: float
    """The same with marks."""
    clock_ghz: float
    """Cycles per ns, by both clocks of the programs."""
    event_program: np.ndarray
    """int32 (events,)"""
    event_lane: np.ndarray
    """int8 (events,)"""
    event_activity: np.ndarray
    """int8 (events,): index into `activities`."""
    event_batch_head: np.ndarray
    """int32 (events,): batch * q_heads + head."""
    event_q_tile: np.ndarray
    """int32 (events,); -1 if the event is about none."""
    event_kv_tile: np.ndarray
    """int32 (events,); -1 if the event is about none."""
    event_begin_ns: np.ndarray
    """float32 (events,)"""
    event_end_ns: np.ndarray
    """float32 (events,)"""
    program_sm: np.ndarray
    """int32 (programs,): of every program, also of those without events here. If several kernels are
    launched, the programs of each follow those of the kernel before it."""
    program_begin_ns: np.ndarray
    """float64 (programs,)"""
    program_end_ns: np.ndarray
    """float64 (programs,)"""
    sm: np.ndarray
    """int32 (sms,): numbers of the SMs that ran a program."""
    sm_busy_ns: np.ndarray
    """float64 (sms,): from the first start of a program of a launch to the last end, all launches together.
    A pause between two launches does not count."""
    sm_product_ns: np.ndarray
    """float64 (sms,): of it, with at least one product under way."""
    sm_softmax_ns: np.ndarray
    """float64 (sms,): softmax of all lanes together."""
    sm_hidden_ns: np.ndarray
    """float64 (sms,): of it, while a product was under way on the SM."""
    sm_activity_ns: np.ndarray
    """float64 (sms, activities): time of each activity, all lanes that have it together."""
    sm_lane_ns: np.ndarray
    """float64 (sms, activities): time of all lanes that have the activity together."""

    @property
    def overhead(self) -> float:
        """By what part of it the marks change the time of the kernel. Below 0 it is faster with them, which
        can be, because they also change the order of its instructions, and when its warps meet."""
        return self.marked_us / self.plain_us - 1

    @property
    def product_share(self) -> float:
        """Share of the SMs' time with a product under way."""
        return float(self.sm_product_ns.sum() / self.sm_busy_ns.sum())

    @property
    def hidden_share(self) -> float:
        """Share of softmax that ran while a product was under way."""
        return float(self.sm_hidden_ns.sum() / self.sm_softmax_ns.sum())

    @functools.cached_property
    def wait_shares(self) -> dict[str, float]:
        """Share of the time of the lanes that have it, for each activity in which they wait."""
        total = self.sm_lane_ns.sum(axis=0)
        return {
            name: float(self.sm_activity_ns[:, number].sum() / total[number])
            for number, (name, kind) in enumerate(self.activities)
            if kind == WAIT
        }


def begins_in_turn(
    program: np.ndarray, lane: np.ndarray, is_own: np.ndarray, begin: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """(events,): the begins, by which no two events of a lane overlap that `is_own` names; `end` stays.

    All warps of a lane set the same mark, and one of them stands, so that an event can begin by an early
    warp and end by a late one. A wait can also hold the wait for the next tile. In the order of their ends,
    an event begins no earlier than the one before it ended.
    """
    begin = begin.copy()
    own = np.flatnonzero(is_own)
    own = own[np.lexsort((begin[own], end[own], lane[own], program[own]))]
    before, after = own[:-1], own[1:]
    same = (program[before] == program[after]) & (lane[before] == lane[after])
    before, after = before[same], after[same]
    begin[after] = np.maximum(begin[after], end[before])
    return begin


SLACK_NS = 2.0
"""Two events that share no more than this do not overlap: a mark takes some cycles."""


@dataclass(frozen=True, eq=False)
class Track:
    """Events of one lane of which no two overlap."""

    sm: int
    row: str
    """Name of its row. The tracks of a row follow each other, products first."""
    is_product: bool
    """Whether it holds products under way; else what the warps do themselves."""
    events: np.ndarray
    """int (events,): indices into the events of the Lanes, by their begin."""


def tracks_of(lanes: Lanes) -> tuple[Track, ...]:
    """The tracks of every SM that has events, by SM and row. Every event is in one of them."""
    programs = np.unique(lanes.event_program)
    sms = lanes.program_sm[programs]
    by_sm = (_tracks_of_sm(lanes, sm, programs[sms == sm]) for sm in np.unique(sms).tolist())
    return tuple(itertools.chain.from_iterable(by_sm))


def _tracks_of_sm(lanes: Lanes, sm: int, programs: np.ndarray) -> list[Track]:
    places = pack(lanes.program_begin_ns[programs], lanes.program_end_ns[programs])
    products = np.array([kind == PRODUCT for _, kind in lanes.activities])
    tracks = []
    # How many places have programs with each lane: several kernels, one after the other, need not agree.
    own_programs = [lanes.event_program[lanes.event_lane == number] for number in range(len(lanes.lanes))]
    counts = [places[np.isin(programs, own)].max(initial=-1) + 1 for own in own_programs]
    for place in range(int(places.max()) + 1):
        own = np.isin(lanes.event_program, programs[places == place])
        for number, label in enumerate(lanes.lanes):
            row = f"{label} ({place + 1} of {counts[number]})" if counts[number] > 1 else label
            of_lane = np.flatnonzero(own & (lanes.event_lane == number))
            is_product = products[lanes.event_activity[of_lane]]
            for kind in (True, False):
                events = of_lane[is_product == kind]
                tracks += [Track(sm, row, kind, each) for each in _apart(lanes, events, has_homes=kind)]
    return tracks


def _apart(lanes: Lanes, events: np.ndarray, has_homes: bool) -> list[np.ndarray]:
    """The events of each track. With homes, an activity stays in a track of its own while that is free."""
    if not len(events):
        return []
    begin, end = lanes.event_begin_ns[events], lanes.event_end_ns[events]
    packed = pack(begin, end)
    if has_homes and packed.any():
        _, number = np.unique(lanes.event_activity[events], return_inverse=True)
        packed = pack(begin, end, number.reshape(-1))
    order = np.argsort(begin, kind="stable")
    return [events[order[packed[order] == track]] for track in range(int(packed.max()) + 1)]


def pack(begin: np.ndarray, end: np.ndarray, home: np.ndarray | None = None) -> np.ndarray:
    """int (spans,): for each span of time a row that is free from its begin to its end.

    It is the row that `home` names if that is free, else the lowest one.
    """
    rows = np.zeros(len(begin), int)
    free_from = [-np.inf] * (int(home.max()) + 1 if home is not None else 0)
    for index in np.lexsort((end, begin)).tolist():
        free = [row for row, time in enumerate(free_from) if time <= begin[index] + SLACK_NS]
        if not free:
            free = [len(free_from)]
            free_from.append(-np.inf)
        row = int(home[index]) if home is not None and home[index] in free else free[0]
        rows[index], free_from[row] = row, float(end[index])
    return rows
