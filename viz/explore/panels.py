"""Panels of the Explore page: the player, the timeline, the mask, the downloads."""

from __future__ import annotations

import functools

import streamlit as st

from kernels.device.gpus import Gpu
from kernels.problem import AttentionProblem
from kernels.problem.tiles import count_tiles
from kernels.trace import Trace
from kernels.trace.perfetto import chrome_trace
from kernels.trace.schedule import Schedule, program_spans, step_schedule
from viz.explore.figures.mask import mask_figure
from viz.explore.figures.timeline import busy_share, timeline_figure, without_pauses
from viz.player.component import export_html, show_player
from viz.player.data import duel_data, player_data
from viz.shared import runs
from viz.shared.layout import colors, plot


@functools.lru_cache(maxsize=16)
def _player_data(trace: Trace, provenance: str, gpu: Gpu) -> dict:
    return player_data(trace, provenance, gpu)


@functools.lru_cache(maxsize=8)
def _duel_data(first: runs.Run, second: runs.Run, gpu: Gpu) -> dict:
    return duel_data((first.trace, first.provenance), (second.trace, second.provenance), gpu)


@st.fragment
def player_panel(run: runs.Run, gpu: Gpu) -> None:
    """The player, with its step in the URL. A fragment: a step that is remembered reruns this panel alone."""
    data = _player_data(run.trace, run.provenance, gpu)
    shown_before = st.session_state.get("player_run")
    if shown_before not in (None, data["id"]):
        st.query_params.pop("step", None)  # the step belonged to another run
    st.session_state["player_run"] = data["id"]
    place = st.query_params.get("step", "0")
    now = show_player(data, key="player", place=place)
    if now != place:
        st.query_params["step"] = now


@st.fragment
def duel_panel(first: runs.Run, second: runs.Run, gpu: Gpu) -> None:
    """Both runs side by side under one transport, with the place in the URL."""
    place = st.query_params.get("place", "steps:0")
    now = show_player(_duel_data(first, second, gpu), key="duel", place=place)
    if now != place:
        st.query_params["place"] = now


def timeline_panel(run: runs.Run, gpu: Gpu) -> None:
    """Which program ran when on which SM, by the GPU's clock or as modelled."""
    schedule = step_schedule(run.trace, run.algorithm, gpu.sm_count)
    spans = without_pauses(program_spans(run.trace, schedule))
    sm_count = run.trace.device.sm_count if schedule.measured else gpu.sm_count
    used = len({span.sm for span in spans})
    busy = 100 * busy_share(spans, sm_count)
    several = schedule.measured and len(run.trace.kernels) > 1
    pauses = " The pauses between the launches are left out." if several else ""
    st.caption(
        f"{_schedule_words(run, schedule, gpu)}. {len(spans):,} programs on {used} of {sm_count} SMs; "
        f"{busy:.0f} % of the SMs' time in use.{pauses}"
    )
    plot(timeline_figure(spans, schedule, run.algorithm, colors()), key="timeline")


def _schedule_words(run: runs.Run, schedule: Schedule, gpu: Gpu) -> str:
    if schedule.measured:
        how = "Recorded" if run.recorded else "Measured"
        return f"**{how}** by the GPU's timer in the traced launch, which is slower than an untraced one"
    return (
        f"**Modelled**: one program per SM of the {gpu.name}, in launch order; every tile step takes the "
        "same time"
    )


def mask_panel(problem: AttentionProblem) -> None:
    """Full, partial and skipped tiles, and the share of the work that the mask saves."""
    counts = count_tiles(problem)
    saved = 100 * counts.skipped / counts.all
    st.caption(
        f"**Counted** from the mask: {counts.full:,} full, {counts.partial:,} partial and "
        f"{counts.skipped:,} skipped tiles in all heads. Skipping saves {saved:.0f} % of the tiles; the "
        "kernel masks only partial ones."
    )
    plot(mask_figure(problem, colors()), key="mask-tiles")


def take_away(run: runs.Run, gpu: Gpu) -> None:
    """Downloads: the player as one file for a talk, the trace to analyse, the timeline for Perfetto."""
    trace, problem = run.trace, run.trace.problem
    shape = f"{problem.q_len}x{problem.kv_len}-d{problem.head_dim}"
    name = f"{trace.algorithm}-{shape}-{problem.dtype}-{problem.mask}"
    with st.container(horizontal=True):
        st.download_button(
            "Player as one HTML file",
            lambda: export_html(_player_data(trace, run.provenance, gpu)),
            f"{name}.html",
            "text/html",
            icon=":material/slideshow:",
            on_click="ignore",
            help="Opens in any browser without a network or a server.",
        )
        st.download_button(
            "Trace (.npz)",
            lambda: trace.to_bytes(compress=True),
            f"{name}.npz",
            "application/octet-stream",
            icon=":material/download:",
            on_click="ignore",
            help="NumPy arrays with one entry per tile step; kernels.trace.Trace.load reads it.",
        )
        st.download_button(
            "SM timeline for Perfetto (.json)",
            lambda: chrome_trace(trace, step_schedule(trace, run.algorithm, gpu.sm_count)),
            f"{name}.trace.json",
            "application/json",
            icon=":material/view_timeline:",
            on_click="ignore",
            help="Chrome trace format: open it at ui.perfetto.dev or in chrome://tracing.",
        )
