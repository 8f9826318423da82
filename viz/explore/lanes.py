"""The lanes beside the run that Explore shows: recorded, or measured here if the run was."""

from __future__ import annotations

from viz.player.lanes import LanesRun, recorded_lane_runs
from viz.shared import runs


def lanes_of(store: runs.RunStore | None, backend: str, run: runs.Run) -> tuple[LanesRun, ...]:
    """Lanes of the run's algorithm, and of others on the same problem; none if its own has none."""
    if run.file:
        return ()
    found = recorded_lane_runs(run.trace.problem, run.algorithm.direction)
    return found if any(each.lanes.algorithm == run.trace.algorithm for each in found) else ()
