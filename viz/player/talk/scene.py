"""A talk: scenes that a speaker shows one after another, each a state of the player.

`viz/talk/README.md` says what may stand in a file; `read.py` reads it. No trace is opened here.
"""

from dataclasses import dataclass

from viz.player.talk.chart import Chart
from viz.shared.run_request import RunRequest


class InvalidTalk(ValueError):
    """What is wrong with a talk's file, with file, scene and field."""


def wrong(where: str, words: str) -> InvalidTalk:
    """`words` name the field, what was given and what is accepted."""
    return InvalidTalk(f"{where}, {words.rstrip('.')}.")


@dataclass(frozen=True)
class Stop:
    """A place where the scene waits for the speaker."""

    step: str
    """As `html_page.State` writes it: "37", "37.2", "gpu:12"; of two runs "bytes:9"."""
    sentence: str = ""
    """Stands in place of the scene's from this stop on; empty keeps the one before."""
    seconds: float = 0
    """In which the picture gets there from the stop before; 0 for 3 s."""
    bars: tuple[str, ...] = ()  # in place of the picture: names with a number at their end


@dataclass(frozen=True)
class Scene:
    """One picture with its words."""

    title: str
    sentence: str
    run: RunRequest | None
    stops: tuple[Stop, ...] = (Stop("0"),)
    versus: RunRequest | None = None
    names: tuple[str, ...] = ()  # of two runs; empty for what differs in their titles
    notes: str = ""
    view: str = "grid"
    row: str = ""
    """The picked row as head and number of the row, "0.20"; empty if no row is marked."""
    chart: Chart | None = None
    """A chart of the Measure page in place of a run; its stops count the peers that are drawn."""

    @property
    def runs(self) -> list[RunRequest]:
        """What it shows: one run, two side by side, or none."""
        return [run for run in (self.run, self.versus) if run]


@dataclass(frozen=True)
class Talk:
    """Scenes in their order."""

    title: str
    minutes: float
    scenes: tuple[Scene, ...]
    file: str = ""

    @property
    def runs(self) -> list[RunRequest]:
        """The runs that the scenes show, each once."""
        return list(dict.fromkeys(run for scene in self.scenes for run in scene.runs))
