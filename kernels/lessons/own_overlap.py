"""How much of a lane's softmax ran beside a product of its own."""

from __future__ import annotations

import numpy as np

from kernels.trace.lanes import PRODUCT, SOFTMAX, Lanes


def own_overlap(lanes: Lanes) -> float:
    """Share of softmax during which the same lane had a product under way; of the events that are there.

    NaN if there is no softmax among them.
    """
    kinds = np.array([kind for _, kind in lanes.activities])[lanes.event_activity]
    begin, end = lanes.event_begin_ns, lanes.event_end_ns
    owners = np.column_stack([lanes.event_program, lanes.event_lane])
    softmax = overlapped = 0.0
    for owner in np.unique(owners, axis=0):
        own = (owners == owner).all(axis=1)
        rows, products = own & (kinds == SOFTMAX), own & (kinds == PRODUCT)
        softmax += float((end - begin)[rows].sum())
        first, last = _merged(begin[products], end[products])
        shared = np.minimum(end[rows, None], last) - np.maximum(begin[rows, None], first)
        overlapped += float(np.clip(shared, 0, None).sum())
    return overlapped / softmax if softmax else float("nan")


def _merged(begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same times as spans that do not overlap."""
    order = np.argsort(begin)
    begin, end = begin[order], np.maximum.accumulate(end[order])
    starts = np.ones(len(begin), bool)
    starts[1:] = begin[1:] > end[:-1]
    return begin[starts], end[np.append(np.flatnonzero(starts)[1:] - 1, len(end) - 1)] if len(end) else end
