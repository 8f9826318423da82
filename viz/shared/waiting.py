"""Asking the worker for something and waiting for it: progress, cancel, failure and retry in one place.

What a button does is its callback (`on_click`), here and on all pages. A callback runs before the page is
drawn, so it is never lost. The value that a button returns is lost if another widget, such as the player that
reports its state, starts the page again before the page has come to that button.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import streamlit as st

from kernels.worker.client import Job
from kernels.worker.failures import FAILURES, Cancelled
from kernels.worker.requests import Request
from viz.shared.formats import format_count
from viz.shared.fragment import fragment
from viz.shared.runs import RunStore

Item = TypeVar("Item")
Result = TypeVar("Result")

IMMEDIATE_S = 8.0
"""Work that is estimated to take longer waits for a button."""
WAIT_S = 1.2
"""How long a page waits for a short job before it shows a progress bar instead."""
CANCEL_S = 5.0
"""How long a page waits for a worker that is being stopped."""
POLL_S = 0.5
"""Each poll draws a part of the page again, for which server and browser take about 0.2 s of a processor."""


def asked_job(
    store: RunStore,
    request: Request[Result],
    seconds: float,
    button: str,
    *,
    notice: str = "",
    key: str | None = None,
    holder: str = "",
) -> Job[Result] | None:
    """The job of a request: that of an earlier page, or a new one.

    A new one that is estimated to take longer than IMMEDIATE_S waits for a click on `button`; until then the
    result is None. `notice` stands above the button. `holder` is a place that shows one result: what it asked
    for before leaves the queue, unless somebody else waits for it.
    """
    if holder:
        store.let_go(holder, but=(request,))
    if seconds <= IMMEDIATE_S or store.peek(request):
        return store.job(request, holder)
    if notice:
        st.info(notice, icon=":material/timer:")
    st.button(
        button,
        key,
        type="primary" if notice else "secondary",
        icon=":material/play_arrow:",
        on_click=store.start,
        args=((request,),),
    )
    return None


def result_of(store: RunStore, job: Job[Result] | None, key: str, wait_s: float = WAIT_S) -> Result | None:
    """The result of one job, as `results_of` gives it; None without a job, while it runs, after a failure."""
    return results_of(store, {0: job}, key, wait_s).get(0) if job else None


def results_of(
    store: RunStore, jobs: Mapping[Item, Job[Result]], key: str, wait_s: float = WAIT_S
) -> dict[Item, Result]:
    """Results of the jobs that have ended, by item; progress, cancel, failure and retry are shown here."""
    if not all(job.wait(wait_s) for job in jobs.values()):
        show_progress(tuple(jobs.values()), key)
    results: dict[Item, Result] = {}
    failed: dict[Job, Exception] = {}
    for item, job in jobs.items():
        try:
            if job.done:
                results[item] = job.result()
        except FAILURES as error:
            failed[job] = error
    if failed:
        first = next(iter(failed.values()))
        (st.info if isinstance(first, Cancelled) else st.error)(str(first), icon=":material/error:")
        retry_button(store, failed, f"{key}-again")
    return results


def retry_button(store: RunStore, jobs: Iterable[Job], key: str, label: str = "Try again") -> None:
    """A button that forgets the jobs and draws the page again, which then asks for them again."""
    st.button(label, key, icon=":material/refresh:", on_click=store.forget, args=tuple(jobs))


def job_words(job: Job) -> str:
    """What a job does now, or how many come before it."""
    ahead = job.jobs_ahead
    return f"{format_count(ahead, 'job')} ahead in the queue" if ahead else job.label


@fragment(run_every=POLL_S)
def show_progress(jobs: tuple[Job, ...], key: str) -> None:
    """A bar that moves while the jobs run, and a button that stops them."""
    done = sum(job.done for job in jobs)
    if done == len(jobs):
        st.rerun()
    now = next(job for job in jobs if not job.done)
    share = (done + min(now.fraction, 1.0)) / len(jobs)
    which = f"run {done + 1} of {len(jobs)}: " if len(jobs) > 1 else ""
    bar, stop = st.columns([5, 1], vertical_alignment="center")
    bar.progress(share, text=which + job_words(now))
    icon = ":material/stop:"
    stop.button("Cancel", f"{key}-cancel", icon=icon, width="stretch", on_click=_cancel, args=(jobs, now))


def _cancel(jobs: tuple[Job, ...], running: Job) -> None:
    """Stop all of them. A little wait for the one that runs lets the page say that it was stopped."""
    for job in jobs:
        job.cancel()
    running.wait(CANCEL_S)
