"""A recorded run, or two, on the player's stage below what a chapter says of it."""

import functools
from collections.abc import Callable

import streamlit as st

from kernels.device.gpus import DEFAULT_GPU, GPUS
from kernels.problem.presets import PRESETS
from viz.player.component import duel_of, show_player
from viz.player.data import player_data
from viz.player.html_page import State
from viz.shared import runs
from viz.shared.fragment import fragment


def stage(preset: str, algorithm: str, state: State, versus: str = "") -> Callable[[], None]:
    """What draws the recorded run of a preset in a state, alone or in a race against a second one."""
    return functools.partial(_stage, preset, algorithm, state, versus)


@fragment()
def _stage(preset: str, algorithm: str, state: State, versus: str) -> None:
    """A fragment: a new state reruns the player alone."""
    key = f"stage_{preset}_{algorithm}_{versus}"
    before = st.session_state.get(key, state)
    st.session_state[key] = show_player(_data(preset, algorithm, versus), f"player_{key}", before)


@functools.lru_cache(maxsize=8)
def _data(preset: str, algorithm: str, versus: str) -> dict:
    names = [name for name in (algorithm, versus) if name]
    shown = [run for name in names if (run := runs.recorded(PRESETS[preset].problem, name))]
    if versus:
        return duel_of(*shown, GPUS[DEFAULT_GPU])
    (run,) = shown
    return player_data(run.trace, run.provenance, GPUS[DEFAULT_GPU])
