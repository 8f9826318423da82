"""The talks that come with the project, and their runs, all of them recorded."""

from __future__ import annotations

from pathlib import Path

from kernels.measure.measurement import Measurement
from kernels.recordings import recorded_measurement, recorded_problems
from viz.player.talk.data import Runs, talk_data
from viz.player.talk.scene import Talk
from viz.shared.run_request import RunRequest
from viz.shared.runs import recorded

NAMES = ("flash_attention_in_5_minutes", "from_softmax_to_flash_attention_3", "the_backward_pass")


def talk_path(name: str) -> Path:
    """The file of a shipped talk."""
    return Path(__file__).parent / f"{name}.toml"


def recorded_runs(talk: Talk) -> Runs:
    """Those runs of a talk that were recorded."""
    found = {name: recorded(name.problem, name.algorithm) for name in talk.runs}
    return {name: (run.trace, run.provenance) for name, run in found.items() if run}


def check_words(talk: Talk) -> None:
    """Raise InvalidTalk for what is wrong with a talk, as far as it is known before its other runs are made.

    Words may use the numbers that a recorded run of the same algorithm has, and the recorded times of the
    problem itself. A talk with an algorithm of which nothing was recorded is not checked.
    """
    found = recorded_runs(talk)
    others = [name for name in talk.runs if name not in found]
    alike = {name: recorded_problems(name.algorithm) for name in others}
    if all(alike.values()):
        stand_ins = {name: recorded(problems[0], name.algorithm) for name, problems in alike.items()}
        runs = {name: (run.trace, run.provenance) for name, run in stand_ins.items() if run}
        talk_data(talk, found | runs, measured, unplaced=others)


def measured(name: RunRequest) -> Measurement | None:
    """Recorded times of a run's problem."""
    return recorded_measurement(name.problem)
