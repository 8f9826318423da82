"""Lanes as rows of a chart: one row per lane of each program that is on an SM at a time, in tracks.

What overlaps in time lies in different tracks or rows, so that every block is seen.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from kernels.trace.lanes import PRODUCT, Lanes

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
        packed = pack(begin, end, number.reshape(-1) % (packed.max() + 1))
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
