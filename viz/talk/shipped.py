"""The talks that come with the project, and their runs, all of them recorded."""

from __future__ import annotations

from pathlib import Path

from kernels.measure.measurement import Measurement
from kernels.recordings import recorded_measurement
from viz.player.scene import RunName, Talk
from viz.player.talk import Runs, run_names
from viz.shared.runs import recorded

NAMES = ("flash_attention_in_5_minutes", "from_softmax_to_flash_attention_3", "the_backward_pass")


def talk_path(name: str) -> Path:
    """The file of a shipped talk."""
    return Path(__file__).parent / f"{name}.toml"


def recorded_runs(talk: Talk) -> Runs:
    """Those runs of a talk that were recorded."""
    found = {name: recorded(name.problem, name.algorithm) for name in run_names(talk)}
    return {name: (run.trace, run.provenance) for name, run in found.items() if run}


def measured(name: RunName) -> Measurement | None:
    """Recorded times of a run's problem."""
    return recorded_measurement(name.problem)
