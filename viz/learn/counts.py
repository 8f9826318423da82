"""Runs that a chapter counts bytes in: shipped recordings first, else the kernels themselves in the worker."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from kernels.algorithms import ALGORITHMS
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.presets import PRESETS
from kernels.worker.client import Cancelled, Job, JobFailure
from viz.shared import runs

Wanted = tuple[AttentionProblem, str]
"""A problem, and the name of an algorithm in kernels.algorithms.ALGORITHMS."""

AT_ONCE_S = 5.0
"""Counting that is estimated to take longer waits for a button."""

WAIT_S = 0.3
"""How long a page waits for the first counts before it is drawn without them."""


def counted_runs(
    store: runs.RunStore | None, backend: str, wanted: Sequence[Wanted], key: str, ask: bool = False
) -> dict[Wanted, runs.Run]:
    """The runs that are there; those that are not are started, short ones at once, long ones (all, with `ask`) by a button drawn here.

    Draws progress, failures and reasons in place; the page is drawn again when all are there. `key` tells this place from others.
    """
    found = {item: run for item in wanted if (run := runs.recorded(*item))}
    missing = [item for item in wanted if item not in found]
    if not missing:
        return found
    if backend == "replay":
        st.caption(
            ":material/history: Without Triton the kernels cannot run here: only recorded runs are counted."
        )
        return found
    jobs = {item: store.peek("trace", *item) for item in missing}
    new = [item for item, job in jobs.items() if job is None]
    if new:
        seconds = sum(
            runs.estimated_seconds(problem, ALGORITHMS[algorithm], backend) for problem, algorithm in new
        )
        if (ask or seconds > AT_ONCE_S) and not _asked(seconds, key):
            new = []
        jobs |= {item: store.trace(*item) for item in new}
    started = {item: job for item, job in jobs.items() if job is not None}
    for job in started.values():
        if not job.wait(WAIT_S):
            break
    if not all(job.done for job in started.values()):
        _progress(list(started.values()), key)
    return found | _finished(store, started, key)


def recorded_counts() -> None:
    """A table of the recorded presets: modelled bytes beside those that the kernels counted on a GPU."""
    rows = ["| recorded run | algorithm | modelled | counted | where |", "|:--|:--|--:|--:|:--|"]
    for preset in PRESETS.values():
        for algorithm in ALGORITHMS.values():
            run = runs.recorded(preset.problem, algorithm.name)
            if run and algorithm.has_formula:
                modelled = algorithm.requested_bytes(preset.problem)
                rows.append(
                    f"| {preset.label} | {algorithm.name} | {modelled:,} B | {run.trace.total_bytes:,} B | {run.provenance} |"
                )
    st.markdown("\n".join(rows))


def _asked(seconds: float, key: str) -> bool:
    place = st.empty()
    asked = place.button(
        f"Count with the kernels, about {max(seconds, 1):,.0f} s",
        key=f"{key}_count",
        icon=":material/calculate:",
    )
    if asked:
        place.empty()  # a bar takes its place
    return asked


def _finished(store: runs.RunStore, jobs: dict[Wanted, Job], key: str) -> dict[Wanted, runs.Run]:
    found, failures = {}, {}
    for item, job in jobs.items():
        if not job.done:
            continue
        try:
            found[item] = runs.finished_run(job)
        except (InvalidProblem, JobFailure) as error:
            failures[job] = error
    if failures:
        error = next(iter(failures.values()))
        (st.info if isinstance(error, Cancelled) else st.error)(str(error), icon=":material/error:")
        if st.button("Count again", key=f"{key}_again", icon=":material/refresh:"):
            for job in failures:
                store.forget(job)
            st.rerun()
    return found


@st.fragment(run_every=0.3)
def _progress(jobs: list[Job], key: str) -> None:
    """A bar that moves while the kernels run, with a way to stop them."""
    done = sum(job.done for job in jobs)
    if done == len(jobs):
        st.rerun()
    running = next((job for job in jobs if not job.done and job.started), None)
    bar, stop = st.columns([4, 1], vertical_alignment="center")
    share = (done + (min(running.fraction, 1.0) if running else 0.0)) / len(jobs)
    bar.progress(share, text=f"counting: run {min(done + 1, len(jobs))} of {len(jobs)}")
    if stop.button("Cancel", key=f"{key}_cancel", icon=":material/stop:", width="stretch"):
        for job in jobs:
            job.cancel()
        st.rerun()
