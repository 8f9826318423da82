"""Draws what `viz.explore.choice` has decided: the run, what the page says of it, and what it offers."""

from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from viz.explore.choice import Extent, Machine, RunChoice, choose, duration, stand_in
from viz.player.data import title_of
from viz.shared import runs
from viz.shared.layout import explore_link
from viz.shared.run_request import RunRequest
from viz.shared.waiting import asked_job, result_of

LAST = "last_run"
"""Key in the session of the run that was shown last."""
ASKED = "runs_asked_for"
"""Key in the session of what the reader has asked for by a button, by run."""
OFFERS = {"here": "Run it here", "whole": "Trace the whole run"}


def this_machine() -> Machine:
    """What can run kernels here, now."""
    store = runs.run_store()
    return Machine(runs.backend(store), store.client.device if store else None, store)


def shown_run(machine: Machine, request: RunRequest, offers: DeltaGenerator | None = None) -> runs.Run | None:
    """The run to show; None if there is none yet, and the page says why.

    `offers` is where the page offers more of it. It is None for the second run of a comparison, for which
    nothing is offered and no other run stands in.
    """
    asked: dict[RunRequest, Extent] = st.session_state.setdefault(ASKED, {})
    choice = choose(request, machine, asked.get(request, ""))
    _say(choice, is_first=offers is not None)
    if offers is not None and choice.offer:
        offers.button(
            OFFERS[choice.offer],
            icon=":material/play_arrow:",
            width="stretch",
            help=choice.offer_words,
            on_click=lambda: asked.update({request: choice.offer}),
        )
    run, is_awaited = choice.recording, choice.case == "starting"
    if choice.trace:
        run, is_awaited = _traced(machine, choice, "second" if offers is None else "first")
    if run is None:
        return _stand_in(request) if is_awaited and offers is not None else None
    if offers is not None:
        st.session_state[LAST] = run
    return run


def _say(choice: RunChoice, is_first: bool) -> None:
    if choice.case in ("refused", "not recorded"):
        st.info(choice.words, icon=":material/block:")
        st.caption(
            "Recorded runs, which every machine can show:" if choice.links else "None was recorded yet."
        )
        with st.container(horizontal=True, gap="small"):
            for preset in choice.links:
                explore_link(preset.label, preset.problem, choice.request.algorithm)
    elif choice.case == "replayed":
        st.caption(f":material/history: {choice.words}")
    elif choice.words and is_first:
        st.caption(choice.words)


def _traced(machine: Machine, choice: RunChoice, place: str) -> tuple[runs.Run | None, bool]:
    """The run of the worker, None until it is there and after a failure; and whether it is still to come."""
    name = choice.request.algorithm
    assert machine.store
    assert choice.trace
    notice = f"This takes about {duration(choice.seconds)} here."
    holder = f"{runs.session_name()} {place}"
    job = asked_job(
        machine.store, choice.trace, choice.seconds, "Run", notice=notice, key=f"run-{name}", holder=holder
    )
    traced = result_of(machine.store, job, f"trace-{name}") if job else None
    return runs.live_run(traced) if traced else None, job is None or not job.done


def _stand_in(request: RunRequest) -> runs.Run | None:
    """The run that was shown before, or a recording, named on the page."""
    shown = st.session_state.get(LAST) or stand_in(request.algorithm)
    if shown is None:
        return None
    words = f"Until this run is there, another is shown: **{title_of(shown.trace)}**, {shown.provenance}."
    st.info(words, icon=":material/hourglass_top:")
    return replace(shown, meanwhile=True)
