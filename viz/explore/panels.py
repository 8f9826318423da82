"""Draws the run that `choice` has decided on, and panels of it: the player, timeline, downloads."""

import functools
import threading
from dataclasses import replace
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.device.gpus import Gpu
from kernels.problem import AttentionProblem
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm
from kernels.trace.schedule import program_spans, step_schedule
from viz.explore.asked_here import ask_for_row
from viz.explore.choice import Extent, Machine, RunChoice, choose, duration, run_presets, stand_in
from viz.explore.figures import MAX_SPANS, busy_share, timeline_figure, without_pauses
from viz.player.component import duel_of, show_player
from viz.player.data import film, player_data, title_of
from viz.player.drawn import drawn_of, is_large
from viz.player.html_page import State, export_html
from viz.player.lanes import LanesRun, lanes_data
from viz.player.places import wrong_state
from viz.player.tiles import KIND_CODES, tile_kinds
from viz.shared import runs
from viz.shared.formats import file_name, format_count
from viz.shared.fragment import fragment
from viz.shared.layout import PLAYER, TRACE, colors, download, plot
from viz.shared.link import BACKS, judge, replace_in_url
from viz.shared.run_request import RunRequest
from viz.shared.waiting import asked_job, result_of
from viz.shared.words import Words

WORDS = Words(__file__)
LAST = "last_run"
"""Key in the session of the run that was shown last."""
ASKED = "runs_asked_for"
"""Key in the session of what the reader has asked for by a button, by run."""
OFFERS = {"here": "Run it here", "whole": "Trace the whole run"}


def this_machine() -> Machine:
    store = runs.run_store()
    machine = Machine(runs.backend(store), store.client.device if store else None, store)
    if machine.backend == "cuda":
        _run_ahead(machine)
    return machine


@st.cache_resource(show_spinner=False)
def _run_ahead(_machine: Machine) -> None:
    """Once per server."""
    threading.Thread(target=run_presets, args=(_machine,), daemon=True).start()


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
                # (not a link: one to the page that it stands on keeps the values of the fields)
                given = preset.problem.as_dict()
                key, icon = f"{choice.request.algorithm} {preset.label}", ":material/play_circle:"
                st.button(preset.label, key, icon=icon, on_click=st.session_state.update, args=(given,))
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
    traced = result_of(machine.store, job, f"trace-{name}")
    return runs.live_run(traced) if traced else None, job is None or not job.done


def _stand_in(request: RunRequest) -> runs.Run | None:
    """The run that was shown before, or a recording, named on the page."""
    shown = st.session_state.get(LAST) or stand_in(request.algorithm)
    if shown is None:
        return None
    words = f"Until this run is there, another is shown: **{title_of(shown.trace)}**, {shown.provenance}."
    st.info(words, icon=":material/hourglass_top:")
    return replace(shown, meanwhile=True)


EMBEDDED = Path(__file__).with_name("embedded.css")
"""The looks of the page in the frame of another one."""
OF_ONE_RUN, OF_TWO_RUNS = ("step", "unit", "row", "open", "lanes"), ("place",)
"""What a player and a duel have in the URL."""
OF_ONE_PROBLEM = ("step", "row", "place")
"""What of it belongs to one problem."""


@functools.lru_cache(maxsize=16)
def _player_data(trace: Trace, provenance: str, gpu: Gpu, lanes: tuple[LanesRun, ...]) -> dict:
    data = player_data(trace, provenance, gpu)
    return data | {"lanes": lanes_data(lanes)} if lanes else data


@fragment()
def player_panel(
    run: runs.Run, gpu: Gpu, lanes: tuple[LanesRun, ...] = (), plays: bool = False, runs_rows: bool = False
) -> None:
    """The player, with its state in the URL. A fragment: a new state reruns this panel alone.

    `lanes` can be opened below the grid. `plays`: it starts to play by itself, phase by phase. `runs_rows`:
    the page runs the kernel again for the numbers of a row that the reader opens.
    """
    data = _player_data(run.trace, run.provenance, gpu, lanes)
    if run.meanwhile:  # the state in the URL is that of the problem in the URL
        show_player(data, "player", {})
        return
    given = {"plays": "by itself"} if plays else {}
    data = data | ({"film": film(), "label": "FlashAttention"} if plays else {})
    _kept_in_url(data, "player", OF_ONE_RUN, (run.trace,), gpu, given, runs_rows)
    if runs_rows:
        ask_for_row(run.trace)


@fragment()
def duel_panel(first: runs.Run, second: runs.Run, gpu: Gpu) -> None:
    """Both runs side by side under one transport, with their state in the URL."""
    _kept_in_url(duel_of(first, second, gpu), "duel", OF_TWO_RUNS, (first.trace, second.trace), gpu)


def _kept_in_url(
    data: dict,
    key: str,
    names: tuple[str, ...],
    traces: tuple[Trace, ...],
    gpu: Gpu,
    given: State | None = None,
    runs_rows: bool = False,
) -> None:
    """Show a player in the state of the URL, or else a given one, and keep it there for its problem."""
    state, now = st.query_params, (st.session_state.get(BACKS), traces[0].problem)
    backs, problem = st.session_state.get("player_problem", now)
    st.session_state["player_problem"] = now
    if backs == now[0] and problem != now[1]:
        for name in OF_ONE_PROBLEM:
            state.pop(name, None)

    def wrong(name: str, given: str) -> str:
        return wrong_state(name, given, [drawn_of(trace, gpu) for trace in traces])

    for name in names:
        judge(name, functools.partial(wrong, name))
        if name in state and wrong(name, state[name]):
            del state[name]
    before = {name: state[name] for name in names if name in state}
    shown = show_player(data, key, before or given or {}, runs_rows)
    after = {name: shown[name] for name in names if name in shown}
    if after != before:
        replace_in_url(names, after)


def timeline_panel(run: runs.Run, gpu: Gpu) -> None:
    """Which program ran when on which SM, by the GPU's clock or as modelled."""
    schedule = step_schedule(run.trace, run.algorithm, gpu)
    spans = without_pauses(program_spans(run.trace, schedule, run.algorithm))
    sm_count = run.trace.device.sm_count if schedule.measured else gpu.sm_count
    which = "the sample alone" if run.trace.sample else "the programs"
    section = "measured timeline" if schedule.measured else "modelled timeline"
    words = WORDS(section, origin=run.origin.capitalize(), which=which, gpu=gpu)
    programs = format_count(len(spans), "query tile" if run.algorithm.persistent else "program")
    used, busy = len({span.sm for span in spans}), 100 * busy_share(spans, sm_count)
    words += f". {programs} on {used} of {sm_count} SMs; {busy:.0f} % of the SMs' time in use."
    st.caption(words + (f" The first {MAX_SPANS:,} are drawn." if len(spans) > MAX_SPANS else ""))
    plot(timeline_figure(spans, run.algorithm, colors()), key="timeline")


def mask_words(problem: AttentionProblem, algorithm: Algorithm) -> str:
    """What the mask leaves of the tiles, and what the algorithm makes of it."""
    if is_large(problem):
        return f"The grid of {problem.q_tiles:,} × {problem.kv_tiles:,} tiles is too large to count here."
    kinds = tile_kinds(problem, algorithm)
    heads = problem.key_heads if algorithm.packs_heads else problem.heads
    counts = {kind.value: heads * int((kinds == code).sum()) for kind, code in KIND_CODES.items()}
    order = {"full": "full", "partial": "cut", "hidden": "hidden", "skipped": "skipped"}
    counted = ", ".join(
        f"{counts[kind]:,} {name}" for kind, name in order.items() if counts[kind] or name == "full"
    )
    words = f"**Counted** from mask and lengths: {counted} tiles in all heads."
    if counts["skipped"]:
        words += f" Skipping saves {100 * counts['skipped'] / (heads * kinds.size):.0f} % of the tiles."
    return words + (" Hidden tiles are computed, and then masked." if counts["hidden"] else "")


def take_away(run: runs.Run, gpu: Gpu, lanes: tuple[LanesRun, ...] = ()) -> None:
    """Downloads: the player as one file for a talk, and the trace to analyse."""
    trace, name = run.trace, file_name(title_of(run.trace))

    def player() -> str:
        return export_html(_player_data(trace, run.provenance, gpu, lanes))

    with st.container(horizontal=True):
        download(PLAYER, player, f"{name}.html", WORDS("player"))
        download(TRACE, lambda: trace.to_bytes(compress=True), f"{name}.npz", WORDS("trace"))
