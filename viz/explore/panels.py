"""Panels of the Explore page: the player, the timeline, the mask, the downloads."""

from __future__ import annotations

import functools

import streamlit as st

from kernels.device.gpus import GPUS, Gpu
from kernels.problem import AttentionProblem
from kernels.problem.tiles import TileKind
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm
from kernels.trace.perfetto import chrome_trace
from kernels.trace.schedule import Schedule, program_spans, step_schedule
from viz.explore.figures.mask import MAX_TILES, mask_figure
from viz.explore.figures.timeline import MAX_SPANS, busy_share, timeline_figure, without_pauses
from viz.explore.picked_row import ask_for_row
from viz.player.component import show_player
from viz.player.data import duel_data, player_data, title_of
from viz.player.html_page import State, export_html
from viz.player.lanes import LanesRun, lanes_data
from viz.player.places import well_placed, wrong_state
from viz.player.scene import PLACE, ROW, STEP, RunName, Scene, Stop
from viz.player.scene_panel import HELP, scene_popover
from viz.player.selection import is_large
from viz.player.tiles import KIND_CODES, tile_kinds
from viz.shared import runs
from viz.shared.formats import file_name, format_count
from viz.shared.layout import colors, plot
from viz.shared.link import first_asked, refuse

EMBEDDED = """<style>
[data-testid="stSidebar"], [data-testid="stExpandSidebarButton"], [data-testid="stHeader"] { display: none; }
[data-testid="stMainBlockContainer"] { padding: 0 !important; max-width: none; }
[data-testid="stMainBlockContainer"] > * > :not(:has(.stBidiComponent)) { display: none; }
</style>"""
OF_ONE_RUN, OF_TWO_RUNS = ("step", "unit", "row", "open", "lanes"), ("place",)
IN_URL = (*OF_ONE_RUN, *OF_TWO_RUNS)
"""What a player and a duel have in the URL."""
OF_ONE_PROBLEM = ("step", "row", "place")
"""What of it belongs to one problem."""


@functools.lru_cache(maxsize=16)
def _player_data(trace: Trace, provenance: str, gpu: Gpu, lanes: tuple[LanesRun, ...]) -> dict:
    data = player_data(trace, provenance, gpu)
    return data | {"lanes": lanes_data(lanes)} if lanes else data


@functools.lru_cache(maxsize=8)
def _duel_data(first: runs.Run, second: runs.Run, gpu: Gpu) -> dict:
    return duel_data((first.trace, first.provenance), (second.trace, second.provenance), gpu)


@st.fragment
def player_panel(
    run: runs.Run,
    gpu: Gpu,
    lanes: tuple[LanesRun, ...] = (),
    plays: bool = False,
    runs_rows: bool = False,
) -> None:
    """The player, with its state in the URL. A fragment: a new state reruns this panel alone.

    `lanes` can be opened below the grid. `plays`: it starts to play by itself, phase by phase. `runs_rows`:
    the page runs the kernel again for the numbers of a row that the reader opens.
    """
    data = _player_data(run.trace, run.provenance, gpu, lanes)
    if not run.is_of_controls:  # the state in the URL is that of the problem in the URL
        show_player(data, "player", {})
        return
    given = {"plays": "by itself"} if plays else {}
    _kept_in_url(data, "player", OF_ONE_RUN, run.trace.problem, given, runs_rows)
    if runs_rows:
        ask_for_row(run.trace)


@st.fragment
def duel_panel(first: runs.Run, second: runs.Run, gpu: Gpu) -> None:
    """Both runs side by side under one transport, with their state in the URL."""
    _kept_in_url(_duel_data(first, second, gpu), "duel", OF_TWO_RUNS, first.trace.problem)


def _kept_in_url(
    data: dict,
    key: str,
    names: tuple[str, ...],
    problem: AttentionProblem,
    given: State | None = None,
    runs_rows: bool = False,
) -> None:
    """Show a player in the state that the URL has, or else in a given one, and put its state there.

    Another algorithm, or a live run in place of a recording, keeps the state. Another problem starts anew.
    """
    if st.session_state.setdefault("player_problem", problem) != problem:
        st.session_state["player_problem"] = problem
        for name in OF_ONE_PROBLEM:
            st.query_params.pop(name, None)
    before = {name: st.query_params[name] for name in names if name in st.query_params}
    for name in names:
        asked = first_asked(name)
        if asked is not None and (wrong := wrong_state(name, asked, data.get("runs") or [data])):
            refuse(name, asked, wrong)
    after = show_player(data, key, before or given or {}, runs_rows)
    for name in names:
        if name in after and after[name] != before.get(name):
            st.query_params[name] = after[name]
        elif name in before and name not in after:
            del st.query_params[name]


def player_alone() -> None:
    """Hide everything but the player: for `?embed=true` in the frame of another page."""
    st.html(EMBEDDED)


def scene_panel(run: runs.Run, other: runs.Run | None, gpu: Gpu) -> None:
    """The state that is shown, as a scene of a talk."""
    no_scene = "A scene names a problem and an algorithm. A file of yours is neither."
    lanes = " A scene has no lanes: this one shows the grid above them." if _shows_lanes(other) else ""
    scene_popover(lambda: no_scene if run.file else _scene_shown(run, other, gpu), "scene", HELP + lanes)


def _shows_lanes(other: runs.Run | None) -> bool:
    return other is None and st.query_params.get("lanes") == "open"


def _scene_shown(run: runs.Run, other: runs.Run | None, gpu: Gpu) -> Scene:
    """The scene of the state in the URL; what the URL has in vain is left out."""
    state = st.query_params
    step = state.get("place" if other else "step", "")
    pattern, first = (PLACE, "race:0") if other else (STEP, "0")
    row = "" if other else state.get("row", "")
    names = [name for name, each in GPUS.items() if each == gpu]
    all_numbers = run.trace.matrices is not None and run.trace.matrix_row is None  # a talk runs no row anew
    is_open = state.get("open") == "tile" and all_numbers
    scene = Scene(
        title=run.algorithm.label,
        sentence=run.algorithm.idea,
        run=RunName(run.trace.problem, run.trace.algorithm),
        stops=(Stop(step if pattern.fullmatch(step) else first),),
        versus=RunName(other.trace.problem, other.trace.algorithm) if other else None,
        view="bytes" if other else "numbers" if is_open else "grid",
        row=row if ROW.fullmatch(row) else "",
        gpu=names[0],
    )
    if other:
        return well_placed(scene, _duel_data(run, other, gpu)["runs"])
    data = [_player_data(run.trace, run.provenance, gpu, ())]
    return well_placed(scene, data)


def timeline_panel(run: runs.Run, gpu: Gpu) -> None:
    """Which program ran when on which SM, by the GPU's clock or as modelled."""
    schedule = step_schedule(run.trace, run.algorithm, gpu.sm_count)
    spans = without_pauses(program_spans(run.trace, schedule))
    sm_count = run.trace.device.sm_count if schedule.measured else gpu.sm_count
    used = len({span.sm for span in spans})
    busy = 100 * busy_share(spans, sm_count)
    several = schedule.measured and len(run.trace.kernels) > 1
    pauses = " The pauses between the launches are left out." if several else ""
    left_out = f" The {MAX_SPANS:,} that start first are drawn." if len(spans) > MAX_SPANS else ""
    programs = format_count(len(spans), "query tile" if run.algorithm.persistent else "program")
    st.caption(
        f"{_schedule_words(run, schedule, gpu)}. {programs} on {used} of {sm_count} SMs; "
        f"{busy:.0f} % of the SMs' time in use.{pauses}{left_out}"
    )
    plot(timeline_figure(spans, schedule, run.algorithm, colors()), key="timeline")


def _schedule_words(run: runs.Run, schedule: Schedule, gpu: Gpu) -> str:
    if schedule.measured:
        how = run.origin.capitalize()
        return f"**{how}** by the GPU's timer in the traced launch, which is slower than an untraced one"
    alone = " of the sample, as if there were no others" if run.trace.sample else ""
    return (
        f"**Modelled**: one program{alone} per SM of the {gpu.name}, in launch order; every tile step takes "
        "the same time"
    )


def mask_panel(problem: AttentionProblem, algorithm: Algorithm) -> None:
    """What the mask leaves of the tiles, and what the algorithm makes of it."""
    if is_large(problem):
        st.caption(
            f"The grid of {problem.q_tiles:,} × {problem.kv_tiles:,} tiles is too large to be counted here."
        )
        return
    kinds = tile_kinds(problem, algorithm)
    heads = problem.key_heads if algorithm.packs_heads else problem.heads
    names = {"full": TileKind.FULL, "partial": TileKind.PARTIAL}
    names |= {"hidden": TileKind.HIDDEN, "skipped": TileKind.SKIPPED}
    counts = {name: heads * int((kinds == KIND_CODES[kind]).sum()) for name, kind in names.items()}
    counted = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count or name == "full")
    words = f"**Counted** from the mask: {counted} tiles in all heads."
    if counts["skipped"]:
        words += f" Skipping saves {100 * counts['skipped'] / (heads * kinds.size):.0f} % of the tiles."
    if counts["hidden"]:
        words += " Hidden tiles are computed all the same, and then masked."
    phases = [phase for kernel in algorithm.kernels for phase in kernel.phases if phase.only_masked]
    if phases and counts["partial"] + counts["hidden"]:
        words += " The phase “mask” is left out of full tiles."
    if max(kinds.shape) > MAX_TILES:
        words += f" Drawn are at most {MAX_TILES} tiles per side, evenly spaced."
    st.caption(words)
    plot(mask_figure(kinds, colors()), key="mask-tiles")


def take_away(run: runs.Run, gpu: Gpu, lanes: tuple[LanesRun, ...] = ()) -> None:
    """Downloads: the player as one file for a talk, the trace to analyse, the timeline for Perfetto."""
    trace = run.trace
    name = file_name(title_of(trace))
    with st.container(horizontal=True):
        st.download_button(
            "Player as one HTML file",
            lambda: export_html(_player_data(trace, run.provenance, gpu, lanes)),
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
            lambda: chrome_trace(
                trace,
                step_schedule(trace, run.algorithm, gpu.sm_count),
                run.algorithm,
                gpu.name,
                [(each.label, each.lanes) for each in lanes],
            ),
            f"{name}.trace.json",
            "application/json",
            icon=":material/view_timeline:",
            on_click="ignore",
            help="Chrome trace format: open it at ui.perfetto.dev or in chrome://tracing.",
        )
