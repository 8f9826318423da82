"""Lanes -> what the view of an SM draws, as plain JSON values. Pure: no streamlit, no drawing."""

import functools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby

import numpy as np

from kernels.algorithms import kernels_with_lanes, lane_kernel
from kernels.problem import AttentionProblem
from kernels.recordings import recorded_lanes
from kernels.trace.lanes import KINDS, LaneKernel, Lanes, tracks_of
from viz.player.data import encode
from viz.shared import theme
from viz.shared.formats import format_count, format_ms, significant


@dataclass(frozen=True, eq=False)
class LanesRun:
    """The lanes of a run, and whether they were recorded or measured here."""

    lanes: Lanes
    recorded: bool

    @property
    def kernel(self) -> LaneKernel:
        """The kernel of the lanes."""
        return lane_kernel(self.lanes.kernel)


@dataclass(frozen=True)
class Figure:
    """A figure of all runs: what it is, and its value in each of them."""

    name: str
    values: tuple[str, ...]
    words: str


@functools.cache
def recorded_lane_runs(problem: AttentionProblem, direction: str) -> tuple[LanesRun, ...]:
    """The recorded lanes of exactly this problem, of every kernel that has some; the fastest first."""
    kernels = kernels_with_lanes(direction)
    found = [lanes for kernel in kernels if (lanes := recorded_lanes(problem, kernel.name))]
    return fastest_first(LanesRun(lanes, recorded=True) for lanes in found)


def fastest_first(runs: Iterable[LanesRun]) -> tuple[LanesRun, ...]:
    """The order in which they stand below each other."""
    return tuple(sorted(runs, key=lambda run: run.lanes.plain_us))


def lanes_data(runs: Sequence[LanesRun], kinds: Collection[str] = KINDS) -> dict:
    """What the view needs of activities of these kinds, with the runs from top to bottom."""
    figures = [asdict(figure) for figure in figures_of(runs)]
    return {"runs": [_run_data(run, kinds) for run in runs], "figures": figures, "looks": theme.LANE_LOOKS}


def _run_data(run: LanesRun, kinds: Collection[str]) -> dict:
    lanes = run.lanes
    is_shown = np.array([kind in kinds for _, kind in lanes.activities])
    tracks = [replace(t, events=t.events[is_shown[lanes.event_activity[t.events]]]) for t in tracks_of(lanes)]
    tracks = [track for track in tracks if len(track.events)]
    sms = [(sm, list(own)) for sm, own in groupby(tracks, lambda track: track.sm)]
    events = np.concatenate([track.events for track in tracks]) if tracks else np.zeros(0, int)
    about = (lanes.event_program, lanes.event_batch_head, lanes.event_q_tile, lanes.event_kv_tile)
    known, index = np.unique(np.column_stack(about)[events], axis=0, return_inverse=True)
    times = (lanes.event_begin_ns, lanes.event_end_ns)
    begin, end = (np.round(each[events].astype(np.float64) * lanes.clock_ghz) for each in times)  # cycles
    left_out, where = len(lanes.sm) - len(sms), f"on {lanes.device.name}, Triton {lanes.device.triton}"
    provenance = f"recorded {where}, {lanes.recorded_at[:10]}" if run.recorded else f"measured here {where}"
    notes = [run.kernel.words] if run.kernel.words else []
    notes += [f"The blocks of {format_count(left_out, 'more SM')} are not shown here."] if left_out else []
    return {
        "title": run.kernel.label,
        "provenance": provenance,
        "activities": [
            {"name": name, "kind": kind} | run.kernel.facts(name) for name, kind in lanes.activities
        ],
        "clock_ghz": lanes.clock_ghz,
        "sms": [
            {"sm": sm}
            | {"tracks": [{"row": t.row, "product": t.is_product, "count": len(t.events)} for t in tracks]}
            for sm, tracks in sms
        ],
        "notes": notes,
        "begin": encode(begin, "uint32"),
        "length": _encode_small(end - begin, "uint16", "uint32"),
        "activity": encode(lanes.event_activity[events], "uint8"),
        "place": _encode_small(index.reshape(-1), "uint16", "uint32"),
        "places": _encode_small(known, "int16", "int32"),
    }


def _encode_small(values: np.ndarray, small: str, large: str) -> dict:
    """As the smaller type if all values fit."""
    dtype = small if values.max(initial=0) <= np.iinfo(small).max else large
    return {"dtype": dtype, "data": encode(values, dtype)}


FIGURES: tuple[tuple[str, Callable[[Lanes], str], str], ...] = (
    (
        "Time of the kernel",
        lambda lanes: format_ms(lanes.plain_us / 1e3),
        "one launch of each of its kernels, without marks",
    ),
    (
        "A product was under way",
        lambda lanes: _percent(lanes.product_share),
        "of the SMs' time; from its issue until its warps know that it is done",
    ),
    (
        "Softmax beside a product",
        lambda lanes: _percent(lanes.hidden_share),
        "of softmax ran while a product was under way on the same SM",
    ),
    (
        "Marks change its time by",
        lambda lanes: _percent(lanes.overhead, sign="+"),
        "marks also change the order in which its warps work, so a kernel can become faster",
    ),
    (
        "Clock of the SMs",
        lambda lanes: f"{significant(lanes.clock_ghz)} GHz",
        "cycles of the SM per nanosecond of the GPU's timer",
    ),
)
"""What it is, its value of some lanes, and what it means."""


def figures_of(runs: Sequence[LanesRun]) -> list[Figure]:
    """Figures of the runs, each with a plain sentence that says what it means."""
    all_lanes = [run.lanes for run in runs]
    figures = [Figure(name, tuple(map(value, all_lanes)), words) for name, value, words in FIGURES]
    waits = dict.fromkeys(name for lanes in all_lanes for name in lanes.wait_shares)
    return [*figures[:3], *(_wait_figure(name, all_lanes) for name in waits), *figures[3:]]


def _wait_figure(name: str, all_lanes: Sequence[Lanes]) -> Figure:
    """The share of a wait, of the time of the lanes that have it."""
    who: dict[str, None] = {}
    for lanes in all_lanes:
        numbers = [i for i, (activity, _) in enumerate(lanes.activities) if activity == name]
        for number in numbers if name in lanes.wait_shares else []:
            own = np.unique(lanes.event_lane[lanes.event_activity == number])
            who[" and ".join(lanes.lanes[lane] for lane in own)] = None
    place = ", until a place in shared memory is free" if name.startswith("place") else ""
    values = tuple(_percent(lanes.wait_shares.get(name, math.nan)) for lanes in all_lanes)
    return Figure(name[0].upper() + name[1:], values, f"of the time of {' or '.join(who)}{place}")


def _percent(share: float, sign: str = "") -> str:
    """`sign` stands before a number over 0."""
    if not math.isfinite(share):
        return "–"
    return f"{sign if share > 0 else ''}{significant(100 * share, 2)} %".replace("-", "−")
