"""TOML -> Talk. What may stand in a file are the types here; msgspec says what does not fit them."""

import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from kernels.algorithms import ALGORITHMS, FIRST
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.presets import PRESETS
from viz.player.places import PLACE, ROW, STEP
from viz.player.talk.chart import Chart, among
from viz.player.talk.scene import InvalidTalk, Scene, Stop, Talk, wrong
from viz.shared.run_request import RunRequest


def _kind(pattern: str, *fields: tuple) -> Any:
    """A table [[scene]] with these fields, whose places have the form of a pattern."""
    step, seconds = Annotated[str, Meta(pattern=rf"\A({pattern})\Z")], Annotated[float, Meta(ge=0, le=60)]
    stop: list[Any] = [("step", step), ("sentence", str, ""), ("seconds", seconds, 0), ("bars", TEXTS, ())]
    table = msgspec.defstruct("Stop", stop, forbid_unknown_fields=True)
    of_all: list[Any] = [("title", WORDS), ("sentence", WORDS), ("notes", str, "")]
    places: list[Any] = [("step", step, ""), ("stops", list[step | table], [])]  # type: ignore[valid-type]
    return msgspec.defstruct("Scene", [*of_all, *fields, *places], forbid_unknown_fields=True, kw_only=True)


WORDS = Annotated[str, Meta(pattern=r"\S")]
TEXTS = tuple[str, ...]
RUN = (
    ("problem", str | dict),
    ("algorithm", Annotated[str, among(ALGORITHMS)], ""),
    ("row", Annotated[str, Meta(pattern=rf"\A({ROW.pattern})?\Z")], ""),
)
VIEW = Annotated[str, among(("grid", "numbers", "chip", "mask", "lanes"))]
PAIR_VIEW = Annotated[str, among(("grid", "mask"))]
ONE_RUN = _kind(STEP.pattern, *RUN, ("view", VIEW, "grid"))
KINDS = {
    "chart": _kind("[1-9]", ("chart", Chart)),
    "versus": _kind(PLACE.pattern, *RUN, ("versus", dict), ("names", TEXTS, ()), ("view", PAIR_VIEW, "grid")),
}
"""By the field that makes a scene another one than that of one run."""


class TalkFile(msgspec.Struct, forbid_unknown_fields=True):
    title: WORDS
    scene: Annotated[list[dict], Meta(min_length=1)]
    minutes: Annotated[float, Meta(gt=0, lt=1e6)] = 5.0


def _taken(values: dict, kind: Any, where: str) -> Any:
    """A table by its type. Raises InvalidTalk with the field and what it takes."""
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        words, _, path = str(error).partition(" - at `$")
        raise wrong(where, f"{path.strip('.`')}: {words}" if path else words) from None


class InvalidField(ValueError):
    """A field that has the right type and does not fit the others."""


def read_talk(path: Path) -> Talk:
    """The talk in a file. Raises InvalidTalk with the first that is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors begin a file with a BOM
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidTalk(f"{path.name}: the file cannot be read as UTF-8 text: {error}") from None
    return parse_talk(text, path.name)


def parse_talk(text: str, file: str) -> Talk:
    """The talk of a TOML text. Raises InvalidTalk with the first that is wrong with it."""
    try:
        top = _taken(tomllib.loads(text), TalkFile, file)
        scenes = [_scene(values, number, file) for number, values in enumerate(top.scene, 1)]
    except InvalidTalk:
        raise
    except tomllib.TOMLDecodeError as error:
        raise InvalidTalk(f"{file}: this is not TOML: {error}") from None
    except (ValueError, RecursionError):  # Python writes no number of thousands of digits
        raise InvalidTalk(f"{file}: it has too large a number, or tables too deep in each other") from None
    return Talk(top.title, top.minutes, tuple(scenes), file)


def _scene(values: dict, number: int, file: str) -> Scene:
    title = values.get("title")
    where = f"{file}, scene {number}" + (f" “{title}”" if isinstance(title, str) and title else "")
    kind = next((kind for name, kind in KINDS.items() if name in values), ONE_RUN)
    taken = msgspec.structs.asdict(_taken(values, kind, where))
    taken = {name: each.strip() if isinstance(each, str) else each for name, each in taken.items()}
    try:
        made = _chart_scene(**taken) if "chart" in taken else _run_scene(**taken)
    except InvalidField as error:
        raise wrong(where, str(error)) from None
    same: dict[str, Any] = {name: taken[name] for name in Scene.__annotations__ if name in taken}
    return Scene(**same | made)


def _stops(step: str, stops: Collection) -> tuple[Stop, ...]:
    later = [Stop(each) if isinstance(each, str) else each for each in stops]
    return (Stop(step), *(Stop(stop.step, stop.sentence.strip(), stop.seconds, stop.bars) for stop in later))


def _chart_scene(chart: Chart, step: str = "", stops: Collection = (), **_: Any) -> dict[str, Any]:
    """Those fields of a scene with a chart that the file does not have as they are."""
    made = _stops(step or str(len(chart.peers)), stops)
    if any(int(stop.step) > len(chart.peers) for stop in made):
        raise InvalidField(f"stops: it has {len(chart.peers)} peers")
    return {"run": None, "stops": made, "view": "chart"}


def _run_scene(
    problem: str | dict,
    algorithm: str = "",
    versus: dict | None = None,
    step: str = "",
    stops: Collection = (),
    **_: Any,
) -> dict[str, Any]:
    """Those fields of a scene with one run or two that the file does not have as they are."""
    run = _run("problem", {"preset": problem} if isinstance(problem, str) else problem, algorithm)
    other = None if versus is None else _run("versus", versus, run.algorithm, run)
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
        raise InvalidField(f"{field}: {error}") from None
    return RunRequest(problem, entry.name)
