"""The talks that come with the project, and the recorded runs of a talk."""

import functools
from pathlib import Path

from viz.player.talk.data import Runs, talk_data
from viz.player.talk.scene import Talk
from viz.shared.runs import recorded

NAMES = ("flash_attention_in_5_minutes", "from_softmax_to_flash_attention_3", "the_backward_pass")


def talk_path(name: str) -> Path:
    """The file of a shipped talk."""
    return Path(__file__).parent / f"{name}.toml"


def recorded_runs(talk: Talk) -> Runs:
    """Those runs of a talk that were recorded."""
    found = {name: recorded(name.problem, name.algorithm) for name in talk.runs}
    return {name: (run.trace, run.provenance) for name, run in found.items() if run}


@functools.lru_cache(maxsize=8)
def recorded_data(talk: Talk) -> dict | None:
    """What the stage shows of a talk whose runs were all recorded; None for another. Raises InvalidTalk."""
    data = talk_data(talk, recorded_runs(talk))
    return data if len(data["scenes"]) == len(talk.scenes) else None
