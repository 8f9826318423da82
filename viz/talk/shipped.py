"""The talks that come with the project, and the runs of a talk."""

from collections.abc import Iterator
from pathlib import Path

from kernels.algorithms import ALGORITHMS
from kernels.measure.measurement import Measurement
from kernels.recordings import recorded_measurement
from viz.player.talk.data import Runs
from viz.player.talk.scene import InvalidTalk, Talk
from viz.shared.run_request import RunRequest
from viz.shared.runs import RunStore, backend, estimated_seconds, recorded

NAMES = ("flash_attention_in_5_minutes", "from_softmax_to_flash_attention_3", "the_backward_pass")


def talk_path(name: str) -> Path:
    """The file of a shipped talk."""
    return Path(__file__).parent / f"{name}.toml"


def recorded_runs(talk: Talk) -> Runs:
    """Those runs of a talk that were recorded."""
    found = {name: recorded(name.problem, name.algorithm) for name in talk.runs}
    return {name: (run.trace, run.provenance) for name, run in found.items() if run}


def runs_to_make(talk: Talk, found: Runs, store: RunStore | None) -> Iterator[tuple[RunRequest, float]]:
    """Runs that were not found, with their rough time here. Raises InvalidTalk if nothing can run here."""
    for name in talk.runs:
        if name not in found:
            algorithm, where = ALGORITHMS[name.algorithm], backend(store)
            if where == "replay":
                words = f"{algorithm.label} of {name.problem} was not recorded, and nothing can run here."
                raise InvalidTalk(f"{talk.file}: {words}")
            yield name, estimated_seconds(name.problem, algorithm, where)


def measured(name: RunRequest) -> Measurement | None:
    """Recorded times of a run's problem."""
    return recorded_measurement(name.problem)
