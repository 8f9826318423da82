"""A talk: scenes that a speaker shows one after another, each a state of the player. Writes a scene as TOML.

`viz/talk/README.md` says what may stand in a file; `read.py` reads it. No trace is opened here.
"""

import json
from dataclasses import dataclass
from typing import Any

import msgspec

from kernels.device.gpus import DEFAULT_GPU
from kernels.problem.presets import PRESETS
from viz.player.talk.chart import Chart
from viz.shared.run_request import RunRequest


class InvalidTalk(ValueError):
    """What is wrong with a talk's file: one line per finding, with file, scene and field."""


@dataclass(frozen=True)
class Stop:
    """A place where the scene waits for the speaker."""

    step: str
    """As `html_page.State` writes it: "37", "37.2", "gpu:12"; of two runs "steps:37", "bytes:9"."""
    sentence: str = ""
    """Stands in place of the scene's from this stop on; empty keeps the one before."""
    seconds: float = 0
    """In which the picture gets there from the stop before; 0 for as long as the way suggests."""


@dataclass(frozen=True)
class Scene:
    """One picture with its words."""

    title: str
    sentence: str
    run: RunRequest | None
    stops: tuple[Stop, ...] = (Stop("0"),)
    versus: RunRequest | None = None
    notes: str = ""
    view: str = "grid"
    row: str = ""
    """The picked row as head and number of the row, "0.20"; empty for the row that tells most."""
    hidden: tuple[str, ...] = ()
    tells: bool = False
    """Whether the run's own sentence of the phase stands in place of the scene's."""
    gpu: str = DEFAULT_GPU
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


def scene_toml(scene: Scene) -> str:
    """A scene as the text that `parse_talk` reads."""
    first, *later = scene.stops
    shown = {"chart": msgspec.to_builtins(scene.chart)} if scene.chart else _run_fields(scene)
    fields: dict[str, Any] = {"title": scene.title, "sentence": scene.sentence, **shown, "step": first.step}
    optional = {
        "stops": [{name: each for name, each in msgspec.to_builtins(stop).items() if each} for stop in later],
        "row": scene.row,
        "hidden": scene.hidden,
        "tells": scene.tells,
        "gpu": scene.gpu if scene.gpu != DEFAULT_GPU else "",
        "notes": scene.notes,
    }
    fields |= {name: value for name, value in optional.items() if value}
    return "\n".join(["[[scene]]", *(f"{name} = {_value(value)}" for name, value in fields.items()), ""])


def _run_fields(scene: Scene) -> dict[str, Any]:
    assert scene.run
    problem = scene.run.problem
    preset = next((name for name, each in PRESETS.items() if each.problem == problem), "")
    fields: dict[str, Any] = {"problem": preset or problem.as_dict(), "algorithm": scene.run.algorithm}
    if scene.versus:
        changes = dict(scene.versus.problem.as_dict().items() - problem.as_dict().items())
        fields["versus"] = {"algorithm": scene.versus.algorithm, **changes}
    return fields | {"view": scene.view}


def _value(value: Any) -> str:
    """A TOML value; JSON writes texts, numbers and truth values alike."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_value(each)}" for name, each in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
