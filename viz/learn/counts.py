"""Runs in which a chapter counts bytes: shipped recordings, else the kernels themselves in the worker."""

from collections.abc import Mapping, Sequence

import streamlit as st

from kernels.algorithms import ALGORITHMS
from kernels.problem import AttentionProblem
from kernels.worker.requests import TraceRequest
from viz.shared import runs
from viz.shared.waiting import results_of
from viz.shared.words import Words

WantedRun = tuple[AttentionProblem, str]
"""A problem, and a key of kernels.algorithms.ALGORITHMS."""

RULE = Words(__file__)("rule")
"""Said where the numbers of a chapter are from. Numbers without a word beside them are requested bytes."""

AT_ONCE_S = 5.0
"""If counting is estimated to take longer, it waits for a button."""

WAIT_S = 0.3
"""How long a page waits for the first counts before it is drawn without them."""


def counted_runs(wanted: Sequence[WantedRun], key: str, ask: bool = False) -> dict[WantedRun, runs.Run]:
    """The wanted runs that are ready. Those that are not are started.

    Short runs start at once; long ones, or all with `ask`, start by a button that is drawn here. Progress,
    failures and reasons are drawn here too, and the page is drawn again when all runs are ready. `key` starts
    the keys of the widgets.
    """
    ready = {item: run for item in wanted if (run := runs.recorded(*item))}
    missing = [item for item in wanted if item not in ready]
    if not missing:
        return ready
    store = runs.run_store()
    backend = runs.backend(store)
    if store is None or backend == "replay":
        st.caption(
            ":material/history: Kernels cannot run here (the badge “replay” says why): only recorded runs "
            "are counted."
        )
        return ready
    requests = {item: TraceRequest(*item) for item in missing}
    new = [item for item in missing if store.peek(requests[item]) is None]
    seconds = sum(runs.estimated_seconds(problem, ALGORITHMS[name], backend) for problem, name in new)
    if new and (ask or seconds > AT_ONCE_S):
        words, icon = f"Count with the kernels, about {max(seconds, 1):,.0f} s", ":material/calculate:"
        start = [requests[item] for item in new]
        st.button(words, key=f"{key}_count", icon=icon, on_click=store.start, args=(start,))
    else:
        store.start(requests[item] for item in new)
    jobs = {item: job for item in missing if (job := store.peek(requests[item])) is not None}
    traced = results_of(store, jobs, key, WAIT_S)
    return ready | {item: runs.live_run(run) for item, run in traced.items()}


def where_counted(ready: Mapping[WantedRun, runs.Run]) -> str:
    """Where the runs are from and what ran them, each said once; with marked terms."""
    words = "; ".join(dict.fromkeys(run.provenance for run in ready.values())) or "not yet run"
    return words.replace("interpreter", "[[interpreter]]")
