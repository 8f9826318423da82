"""What the warps of a lane do themselves, one after the other."""

from __future__ import annotations

import numpy as np


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
