"""What the page says if an algorithm cannot run on this machine, or does not take the problem."""

from __future__ import annotations

import streamlit as st

from kernels.algorithms import ALGORITHMS
from kernels.device.backend import DeviceInfo
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_problems
from kernels.trace.algorithm import Algorithm
from viz.shared import runs
from viz.shared.layout import explore_link


def say_refused(entry: Algorithm, refused: InvalidProblem) -> None:
    """Why the algorithm does not take the problem on any machine, and which of its runs can be seen."""
    st.info(str(refused), icon=":material/block:")
    _recorded_links(entry)


def say_not_recorded(entry: Algorithm, problem: AttentionProblem, device: DeviceInfo | None) -> None:
    """Why there is nothing to show: it cannot run on the device (None: nothing can), nor was it recorded."""
    if entry.needs:
        where = f" {_here(device)}" if device else ""
        words = f"{entry.label} needs {entry.needs.gpu_words}.{where} It was not recorded for this problem."
        st.info(words, icon=":material/history:")
        _recorded_links(entry)
        return
    known = [each.label for each in ALGORITHMS.values() if runs.recorded(problem, each.name)]
    if known:
        words = f"There is no recording of {entry.label} for this problem. Recorded are: {', '.join(known)}."
    else:
        words = "Kernels cannot run here (the badge “replay” says why), so only recorded problems can be "
        words += "shown. Choose one of them under “Start from”."
    st.info(words, icon=":material/history:")


def say_replayed(entry: Algorithm, recording: runs.Run, device: DeviceInfo) -> None:
    """That a recording is shown because the algorithm cannot run on this device."""
    assert entry.needs
    on = recording.trace.device.name
    words = f"{entry.label} needs {entry.needs.gpu_words}. {_here(device)} Shown is its run on {on}."
    st.caption(f":material/history: **Replayed**: {words}")


def _here(device: DeviceInfo) -> str:
    if device.backend == "cuda":
        return f"This GPU, {device.name}, has {device.compute_capability}."
    return "Here kernels run in Triton's interpreter."


def _recorded_links(entry: Algorithm) -> None:
    """Links to the recorded runs of the algorithm, by the names of their presets."""
    recorded = recorded_problems(entry.name)
    presets = [each for each in PRESETS.values() if entry.with_own_tiles(each.problem) in recorded]
    if not presets:
        st.caption("None of its runs has been recorded yet.")
        return
    st.caption("Its recorded runs, which every machine can show:")
    with st.container(horizontal=True, gap="small"):
        for preset in presets:
            explore_link(preset.label, preset.problem, entry.name)
