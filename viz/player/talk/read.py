"""TOML -> Talk. What may stand in a file is in tables here: the type of each field, and the same in words."""

import json
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from kernels.algorithms import ALGORITHMS, FIRST
from kernels.device.gpus import GPUS
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.presets import PRESETS
from viz.player.places import PLACE, ROW, STEP
from viz.player.talk.chart import OPTIONS, Chart, among
from viz.player.talk.scene import InvalidTalk, Scene, Stop, Talk
from viz.shared.run_request import RunRequest


class Field(NamedTuple):
    """What a field takes."""

    type: Any
    accepted: str


def _one_of(options: Collection[str]) -> Field:
    return Field(Annotated[str, among(options)], f"one of {', '.join(options)}")


def _some_of(*options: str) -> Field:
    return Field(tuple[Annotated[str, among(options)], ...], f"a list of {', '.join(options)}")


SECONDS = Annotated[float, Meta(ge=0, le=60)]


def _places(pattern: str, accepted: str) -> dict[str, Field]:
    step = Annotated[str, Meta(pattern=rf"\A({pattern})\Z")]
    table = msgspec.defstruct(
        "Stop", [("step", step), ("sentence", str, ""), ("seconds", SECONDS, 0)], forbid_unknown_fields=True
    )
    stops = f"a list of places such as {accepted}, or of tables of step, sentence and seconds"
    return {"step": Field(step, accepted), "stops": Field(list[step | table], stops)}  # type: ignore[valid-type]


WORDS = Field(Annotated[str, Meta(pattern=r"\S")], "a text in quotes")
TALK = {
    "title": WORDS,
    "minutes": Field(Annotated[float, Meta(gt=0, lt=1e6)], "a number above 0"),
    "scene": Field(Annotated[list[dict], Meta(min_length=1)], "one or more tables [[scene]]"),
}
SCENE = {"title": WORDS, "sentence": WORDS, "notes": Field(str, "a text in quotes")}
RUN = SCENE | {
    "problem": Field(str | dict, f"one of {', '.join(PRESETS)}, or a table of a problem's fields and preset"),
    "algorithm": _one_of(ALGORITHMS),
    "view": _one_of(("grid", "numbers", "row", "mask", "lanes")),
    "row": Field(Annotated[str, Meta(pattern=rf"\A({ROW.pattern})?\Z")], 'head and row, such as "0.20"'),
    "hidden": _some_of("sentence", "picture", "state"),
    "tells": Field(bool, "true or false"),
    "gpu": _one_of(GPUS),
    **_places(STEP.pattern, '"37", "37.2" for its second phase, or "gpu:12"'),
}
VERSUS = f"a table of an algorithm among {', '.join(ALGORITHMS)}, and of the problem's fields that differ"
DUEL = RUN | {
    "versus": Field(dict, VERSUS),
    "view": _one_of(("grid", "mask")),
    **_places(PLACE.pattern, '"bytes:500" or "steps:37"'),
}
OF_CHART = ", ".join(f"{name} ({' '.join(words)})" for name, words in OPTIONS.items())
CHART = SCENE | {
    "chart": Field(Chart, f"a table of length, head_dim, {OF_CHART}"),
    "hidden": _some_of("sentence", "picture"),
    **_places("[1-9]", "how many of its peers are drawn"),
}
REQUIRED = {"title", "sentence", "problem", "scene"}


class Findings(list[str]):
    """What is wrong with a file, a line each."""

    def add(self, where: str, words: str) -> None:
        """Write down a finding; `words` name the field, what was given and what is accepted."""
        self.append(f"{where}, {words.rstrip('.')}.")

    def refuse(self, where: str, name: str, given: Any, accepted: str, error: object = "") -> None:
        """Write down that a field has a value that it does not take; `error` says more."""
        shown = "nothing is given" if given in (None, "", []) else json.dumps(given, default=str)[:60]
        self.add(where, f"{name}: {shown}; expected {accepted}{f': {error}' if error else ''}")

    def read(self, values: Mapping, fields: Mapping[str, Field], where: str) -> dict[str, Any] | None:
        """The fields of a table by their types; None if something is wrong with them."""
        before, taken = len(self), {}
        for name, given in values.items():
            if name not in fields:
                self.add(where, f"{name}: this field is not known; known are {', '.join(fields)}")
                continue
            try:
                value = msgspec.convert(given, fields[name].type)
                taken[name] = value.strip() if isinstance(value, str) else value
            except msgspec.ValidationError as error:
                inside = str(error) if " at `" in str(error) else ""
                self.refuse(where, name, given, fields[name].accepted, inside)
        for name in fields:
            if name in REQUIRED and name not in values:
                self.refuse(where, name, None, fields[name].accepted)
        return taken if len(self) == before else None


class WrongField(ValueError):
    """A field that has the right type and does not fit the others: its name, and why."""


def read_talk(path: Path) -> Talk:
    """The talk in a file. Raises InvalidTalk with what is wrong with it, of each scene."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors begin a file with a BOM
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidTalk(f"{path.name}: the file cannot be read as UTF-8 text: {error}") from None
    return parse_talk(text, path.name)


def parse_talk(text: str, file: str) -> Talk:
    """The talk of a TOML text. Raises InvalidTalk with what is wrong with it, of each scene."""
    findings = Findings()
    try:
        top = findings.read(tomllib.loads(text), TALK, file) or {"scene": []}
        scenes = [_scene(values, number, file, findings) for number, values in enumerate(top["scene"], 1)]
    except tomllib.TOMLDecodeError as error:
        raise InvalidTalk(f"{file}: this is not TOML: {error}") from None
    except (ValueError, RecursionError):  # Python writes no number of thousands of digits
        raise InvalidTalk(f"{file}: it has too large a number, or tables too deep in each other") from None
    if findings:
        raise InvalidTalk("\n".join(findings))
    return Talk(top["title"], top.get("minutes", 5.0), tuple(filter(None, scenes)), file)


def _scene(values: dict, number: int, file: str, findings: Findings) -> Scene | None:
    title = values.get("title")
    where = f"{file}, scene {number}" + (f" “{title}”" if isinstance(title, str) and title else "")
    fields = CHART if "chart" in values else DUEL if "versus" in values else RUN
    taken = findings.read(values, fields, where)
    if taken is None:
        return None
    try:
        made = _chart_scene(**taken) if "chart" in taken else _run_scene(**taken)
    except WrongField as error:
        name, why = error.args
        findings.refuse(where, name, values.get(name), fields[name].accepted, why)
        return None
    same: dict[str, Any] = {name: taken[name] for name in Scene.__annotations__ if name in taken}
    return Scene(**same | made)


def _stops(step: str, stops: Collection) -> tuple[Stop, ...]:
    later = [Stop(each) if isinstance(each, str) else each for each in stops]
    return (Stop(step), *(Stop(stop.step, stop.sentence.strip(), stop.seconds) for stop in later))


def _chart_scene(chart: Chart, step: str = "", stops: Collection = (), **_: Any) -> dict[str, Any]:
    """Those fields of a scene with a chart that the file does not have as they are."""
    made = _stops(step or str(len(chart.peers)), stops)
    if any(int(stop.step) > len(chart.peers) for stop in made):
        raise WrongField("stops", f"it has {len(chart.peers)} peers")
    return {"run": None, "stops": made, "view": "chart"}


def _run_scene(
    problem: str | dict,
    algorithm: str = "",
    versus: dict | None = None,
    view: str = "grid",
    hidden: Collection[str] = (),
    step: str = "",
    stops: Collection = (),
    **_: Any,
) -> dict[str, Any]:
    """Those fields of a scene with one run or two that the file does not have as they are."""
    run = _run("problem", {"preset": problem} if isinstance(problem, str) else problem, algorithm)
    other = None if versus is None else _run("versus", versus, run.algorithm, run)
    if "state" in hidden and view != "numbers":
        raise WrongField("hidden", '"state" only with view = "numbers", whose m, l and α it hides')
    return {"run": run, "versus": other, "stops": _stops(step or ("bytes:0" if other else "0"), stops)}


def _run(field: str, given: dict, algorithm: str, base: RunRequest | None = None) -> RunRequest:
    """The run of a table of fields, else as its preset or `base`; with own tiles unless some are given."""
    changes = {**given}
    try:
        preset = PRESETS[changes.pop("preset")] if "preset" in given else None
        if field == "versus":
            algorithm = changes.pop("algorithm", algorithm)
        entry = ALGORITHMS[algorithm or (preset and preset.algorithm) or FIRST]
        start = preset.problem if preset else base.problem if base else AttentionProblem()
        problem = start.with_(**changes)
        if not changes.keys() & {"block_m", "block_n"}:
            problem = entry.with_own_tiles(problem)
        if refused := entry.refusal(problem):
            raise refused
    except (InvalidProblem, KeyError, TypeError) as error:
        raise WrongField(field, error) from None
    return RunRequest(problem, entry.name)
