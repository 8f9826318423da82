"""The run that Explore shows: the shipped recording, or one that the worker makes here.

A long run is traced by a sample of it. While a run is awaited, another one stands in, and the page says so.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.algorithms import ALGORITHMS
from kernels.problem import AttentionProblem
from kernels.recordings import recorded_problems
from kernels.trace.algorithm import Algorithm
from kernels.trace.sample import Sample, choose_sample, sampled_steps
from kernels.worker.requests import TraceRequest
from viz.explore import not_here
from viz.player.data import title_of
from viz.player.selection import is_large
from viz.shared import runs
from viz.shared.waiting import IMMEDIATE_S, asked_job, result_of

LONG_S = 3.0
"""A run that is estimated to take longer is sampled, if its algorithm can be."""
WHOLE_S = 100.0
"""A whole run that is estimated to take longer is not offered: the worker's time limit would end it."""
LAST = "last_run"
"""Key in the session of the run that was shown last."""


def current_run(
    store: runs.RunStore | None,
    backend: str,
    problem: AttentionProblem,
    algorithm: str,
    button_place: DeltaGenerator | None = None,
) -> runs.Run | None:
    """The run to show; None if there is none yet, and the page says why.

    `button_place` is where the page offers to run more of it here. If it is None, nothing is offered, and no
    other run stands in.
    """
    wanted = _wanted_run(store, backend, problem, algorithm, button_place)
    if button_place is None:
        return wanted.run
    if wanted.run:
        st.session_state[LAST] = wanted.run
        return wanted.run
    return _stand_in(problem, algorithm) if wanted.awaited else None


class Wanted(NamedTuple):
    """The run that was asked for, if it is there, and whether it is still to come or waits for the user."""

    run: runs.Run | None
    awaited: bool = False


def _wanted_run(
    store: runs.RunStore | None,
    backend: str,
    problem: AttentionProblem,
    algorithm: str,
    button_place: DeltaGenerator | None,
) -> Wanted:
    entry, recording = ALGORITHMS[algorithm], runs.recorded(problem, algorithm)
    if refused := entry.refusal(problem):
        not_here.say_refused(entry, refused)
        return Wanted(None)
    if store is None or backend == "replay":
        if recording is None:
            not_here.say_not_recorded(entry, problem, None)
        return Wanted(recording)
    if entry.needs and (unable := _unable(store, entry, problem, recording)):
        return unable
    live = st.session_state.setdefault("live_runs", set())
    if recording is None or (problem, algorithm) in live:
        return _live_run(store, backend, problem, algorithm, button_place)
    if button_place:
        button_place.button(
            "Run it here",
            icon=":material/play_arrow:",
            width="stretch",
            help=f"Shown now: {recording.provenance}. This runs the kernel on the device at hand.",
            on_click=live.add,
            args=((problem, algorithm),),
        )
    return Wanted(recording)


def _unable(
    store: runs.RunStore, entry: Algorithm, problem: AttentionProblem, recording: runs.Run | None
) -> Wanted | None:
    """What is shown of an algorithm that needs another device than the worker's; None if it can run."""
    device = store.client.device
    if device is None:  # the worker will say soon whether it can run
        return Wanted(recording, awaited=recording is None)
    if entry.missing(device.compute_capability) is None:
        return None
    if recording is None:
        not_here.say_not_recorded(entry, problem, device)
    else:
        not_here.say_replayed(entry, recording, device)
    return Wanted(recording)


def _live_run(
    store: runs.RunStore,
    backend: str,
    problem: AttentionProblem,
    algorithm: str,
    button_place: DeltaGenerator | None,
) -> Wanted:
    entry = ALGORITHMS[algorithm]
    seconds = runs.estimated_seconds(problem, entry, backend)
    is_long = seconds > LONG_S or is_large(problem)
    if backend == "starting" and is_long:
        return Wanted(None, awaited=True)
    sample = None
    if is_long and not _asked_for_whole(problem, algorithm):
        sample = choose_sample(
            problem, entry, lambda steps: runs.estimated_seconds(problem, entry, backend, steps)
        )
    needed, notice = seconds, f"This run takes about {duration(seconds)} here."
    if sample:
        steps = sampled_steps(problem, entry, sample)
        needed = runs.estimated_seconds(problem, entry, backend, steps)
        notice = f"This sample takes about {duration(needed)} here."
    elif _asked_for_whole(problem, algorithm):
        needed = 0.0
    elif seconds > IMMEDIATE_S:
        notice += f" {entry.label} has no sample that is much shorter."
    if sample and button_place:
        _say_sampled(problem, sample, seconds)
        _offer_whole(problem, algorithm, seconds, button_place)
    request = TraceRequest(problem, algorithm, sample)
    holder = f"{runs.session_name()} {'first' if button_place else 'second'}"
    job = asked_job(store, request, needed, "Run", notice=notice, key=f"run-{algorithm}", holder=holder)
    if job is None:
        return Wanted(None, awaited=True)
    traced = result_of(store, job, f"trace-{algorithm}")
    return Wanted(runs.live_run(traced) if traced else None, awaited=not job.done)


def _asked_for_whole(problem: AttentionProblem, algorithm: str) -> bool:
    return (problem, algorithm) in st.session_state.setdefault("whole_runs", set())


def _say_sampled(problem: AttentionProblem, sample: Sample, seconds: float) -> None:
    st.caption(
        f"**Sample**: {sample.words(problem)} are traced, since a trace of the whole run takes about "
        f"{duration(seconds)} here. The bytes of the whole run are modelled, and held "
        "against what the sample counted."
    )


def _offer_whole(
    problem: AttentionProblem, algorithm: str, seconds: float, button_place: DeltaGenerator
) -> None:
    """A button that traces the whole run, unless the worker would be stopped before its end."""
    if seconds < WHOLE_S:
        button_place.button(
            "Trace the whole run",
            icon=":material/play_arrow:",
            width="stretch",
            help=f"Shown is a sample. A trace of the whole run takes about {duration(seconds)} here.",
            on_click=st.session_state["whole_runs"].add,
            args=((problem, algorithm),),
        )


def duration(seconds: float) -> str:
    """Rough time in words: "42 s", "5 min", "1.7 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def _stand_in(problem: AttentionProblem, algorithm: str) -> runs.Run | None:
    """The run that was shown before, or the recording of the nearest problem, with words that name it."""
    before = st.session_state.get(LAST)
    shown = before or _nearest_recording(problem, algorithm)
    if shown is None:
        return None
    why = "the run before it stays" if before else "the recording of the nearest problem stands in"
    words = f"Until this run is there, {why}: **{title_of(shown.trace)}**, {shown.provenance}."
    st.info(words, icon=":material/hourglass_top:")
    return replace(shown, meanwhile=True)


def _nearest_recording(problem: AttentionProblem, algorithm: str) -> runs.Run | None:
    """Of the same algorithm, if it has any: that of the most similar problem."""
    for names in ([algorithm], list(ALGORITHMS)):
        found = [
            (_distance(problem, known), name, known) for name in names for known in recorded_problems(name)
        ]
        if found:
            _, name, nearest = min(found, key=lambda each: each[0])
            return runs.recorded(nearest, name)
    return None


def _distance(one: AttentionProblem, other: AttentionProblem) -> float:
    """How unlike two problems are: factors between their sizes as powers of two, and 2 for another mask."""
    sizes = ("q_len", "kv_len", "head_dim", "heads", "block_m", "block_n")
    factors = (abs(math.log2(getattr(one, size) / getattr(other, size))) for size in sizes)
    return sum(factors) + 2 * (one.mask != other.mask)
