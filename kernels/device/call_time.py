"""Time of calls as a program makes them: one after another, each launched by the host.

`kernels.device.clocks` times the kernels of a call alone, replayed from a graph.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

CALLS_IN_A_ROW, ROUNDS = 20, 5
"""Calls that are queued one after another, and how often that is done."""
LONGEST_ROUND_MS = 50.0
"""Fewer calls are queued in a row if they take longer, but at least FEWEST_CALLS."""
FEWEST_CALLS = 3


@dataclass(frozen=True)
class CallTime:
    """Milliseconds of one of several calls in a row."""

    host_ms: float
    """Until the call returns: its work is then queued, and the host is free."""
    wall_ms: float
    """Until its work is done. Host and GPU overlap, so this is about the longer of the two."""


def time_calls(
    call: Callable[[], object],
    synchronize: Callable[[], object],
    now_s: Callable[[], float] = time.perf_counter,
) -> CallTime:
    """Medians over ROUNDS. The call must be warm; `synchronize` waits until all queued work is done."""

    def in_a_row(count: int) -> CallTime:
        synchronize()
        began = now_s()
        for _ in range(count):
            call()
        queued = now_s()
        synchronize()
        return CallTime(1e3 * (queued - began) / count, 1e3 * (now_s() - began) / count)

    most = int(LONGEST_ROUND_MS / max(in_a_row(1).wall_ms, 1e-3))
    rounds = [in_a_row(min(max(most, FEWEST_CALLS), CALLS_IN_A_ROW)) for _ in range(ROUNDS)]
    return CallTime(
        statistics.median(each.host_ms for each in rounds), statistics.median(each.wall_ms for each in rounds)
    )
