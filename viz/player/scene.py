"""A talk: scenes that a speaker shows one after another, each a state of the player. Reads and writes TOML.

`viz/talk/README.md` says what may stand in a file. Pure: no streamlit, and no trace is opened.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from kernels.algorithms import ALGORITHMS
from kernels.device.gpus import DEFAULT_GPU, GPUS
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.presets import PRESETS
from viz.player.chart import Chart, InvalidChart
from viz.player.scene_table import Table, toml_values
from viz.player.what_if import NAMES, Choice, default_choices, read_choices

VIEWS = {
    "grid": "the grid of tiles, and what lies in SRAM",
    "numbers": "one tile in its numbers",
    "row": "the grid, and the state of one row over the steps",
    "source": "the grid, and the kernel's source",
    "mask": "the grid alone",
    "bytes": "the grid, and the bytes so far",
}
DUEL_VIEWS = ("grid", "mask", "bytes")
PARTS = ("sentence", "picture", "code", "state")
"""What can be hidden until asked; "state" is m, l and alpha of a tile in its numbers."""
_NUMBER = "[0-9]{1,12}"  # int() takes no number of thousands of digits, which a URL may hold
STEP = re.compile(rf"{_NUMBER}(\.{_NUMBER})?|gpu:{_NUMBER}")
PLACE = re.compile(rf"(race|steps):{_NUMBER}")
ROW = re.compile(rf"{_NUMBER}\.{_NUMBER}")
PROBLEM_FIELDS = tuple(field.name for field in fields(AttentionProblem))


class InvalidTalk(ValueError):
    """What is wrong with a talk's file: one line per finding, with file, scene and field."""


@dataclass(frozen=True)
class Stop:
    """A place where the scene waits for the speaker."""

    step: str
    """As `viz.player.html_page.State` writes it: "37", "37.2", "gpu:12"; of two runs "steps:37", "race:9"."""
    sentence: str = ""
    """Stands in place of the scene's from this stop on; empty keeps the one before."""


class RunName(NamedTuple):
    """Which run is shown."""

    problem: AttentionProblem
    algorithm: str


@dataclass(frozen=True)
class Scene:
    """One picture with its words."""

    title: str
    sentence: str
    run: RunName | None
    """None for a chart."""
    stops: tuple[Stop, ...] = (Stop("0"),)
    versus: RunName | None = None
    notes: str = ""
    view: str = "grid"
    row: str = ""
    """The picked row as head and number of the row, "0.20"; empty for the row that tells most."""
    hidden: tuple[str, ...] = ()
    tells: bool = False
    """Whether the run's own sentence of the phase stands in place of the scene's."""
    gpu: str = DEFAULT_GPU
    live: tuple[Choice, ...] = ()
    """What the speaker may change of the problem during the talk."""
    chart: Chart | None = None
    """A chart of the Measure page in place of a run; its stops count the peers that are drawn."""


@dataclass(frozen=True)
class Talk:
    """Scenes in their order."""

    title: str
    minutes: float
    scenes: tuple[Scene, ...]
    file: str = ""
    """The file's name, for messages."""


def read_talk(path: Path) -> Talk:
    """The talk in a file. Raises InvalidTalk with everything that is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors begin a file with a BOM
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidTalk(f"{path.name}: the file cannot be read as UTF-8 text: {error}") from None
    return parse_talk(text, path.name)


def parse_talk(text: str, file: str) -> Talk:
    """The talk of a TOML text. Raises InvalidTalk with everything that is wrong with it."""
    try:
        values = toml_values(text)
    except ValueError as error:
        raise InvalidTalk(f"{file}: this is not TOML: {error}") from None
    top = Table(values, file)
    title = top.text("title", required=True)
    minutes = top.number("minutes", 5.0)
    given = top.take("scene", list, "one or more tables [[scene]]", default=[])
    top.expect(bool(given), "scene", given, "one or more tables [[scene]]")
    scenes = []
    for number, each in enumerate(given, 1):
        name = each.get("title", "") if isinstance(each, dict) else ""
        where = f"{file}, scene {number}" + (f" “{name}”" if isinstance(name, str) and name else "")
        table = Table(each if isinstance(each, dict) else {}, where, top.findings)
        scenes.append(_scene(table))
        table.refuse_others()
    top.refuse_others()
    if top.findings:
        raise InvalidTalk("\n".join(top.findings))
    return Talk(title, minutes, tuple(scene for scene in scenes if scene), file)


def _scene(table: Table) -> Scene | None:
    """One scene; None if its run cannot be told."""
    before = len(table.findings)
    title, sentence = table.text("title", required=True), table.text("sentence", required=True)
    notes = table.text("notes")
    if "chart" in table.values:
        return _chart_scene(table, title, sentence, notes)
    problem = table.take("problem", (str, dict), "the name of a preset, or a table")
    run = _run(table, "problem", problem, None)
    if run:
        run = RunName(run.problem, table.one_of("algorithm", list(ALGORITHMS), run.algorithm))
        run = _with_own_tiles(table, "algorithm", run, problem)
    given = table.take("versus", dict, 'a table such as { algorithm = "standard" }')
    versus = _versus(table, given, run) if given is not None and run else None
    is_duel = given is not None
    view = table.one_of("view", DUEL_VIEWS if is_duel else list(VIEWS), "grid")
    stops = _stops(table, is_duel)
    row = table.text("row")
    table.expect(not row or bool(ROW.fullmatch(row)), "row", row, 'head and row, such as "0.20"')
    hidden = table.take("hidden", list, f"a list of {', '.join(PARTS)}", default=[])
    table.expect(all(part in PARTS for part in hidden), "hidden", hidden, f"a list of {', '.join(PARTS)}")
    asks = view == "numbers" or "state" not in hidden
    table.expect(asks, "hidden", hidden, '"state" only with view = "numbers", whose m, l and α it hides')
    tells = table.take("tells", bool, "true or false", default=False)
    gpu = table.one_of("gpu", list(GPUS), DEFAULT_GPU)
    live = _live(table, run, versus, view)
    if run is None or len(table.findings) > before:
        return None
    return Scene(title, sentence, run, stops, versus, notes, view, row, tuple(hidden), tells, gpu, live)


def _chart_scene(table: Table, title: str, sentence: str, notes: str) -> Scene | None:
    """A scene that shows a chart; None if it cannot be told."""
    before = len(table.findings)
    accepted = 'a table such as { metric = "time", mask = "causal" }'
    given = table.take("chart", dict, accepted, default={})
    hidden = table.take("hidden", list, "a list of sentence, picture", default=[])
    table.expect(all(part in PARTS[:2] for part in hidden), "hidden", hidden, "a list of sentence, picture")
    try:
        chart = Chart.read(given)
    except InvalidChart as error:
        table.expect(False, "chart", given, f"{accepted}: {error}")
        return None
    count = [str(number) for number in range(1, len(chart.peers) + 1)]
    stops = _stops(table, is_duel=False, first=count[-1])
    fits = all(stop.step in count for stop in stops)
    table.expect(
        fits, "stops", [stop.step for stop in stops], f"how many peers are drawn: {', '.join(count)}"
    )
    if len(table.findings) > before:
        return None
    return Scene(title, sentence, None, stops, None, notes, "chart", hidden=tuple(hidden), chart=chart)


def _live(table: Table, run: RunName | None, versus: RunName | None, view: str) -> tuple[Choice, ...]:
    """What may be changed during the talk: given, or good values if the field is true."""
    accepted = f"true, or a table of lists named {', '.join(NAMES)}"
    given = table.take("live", (bool, dict), accepted, default=False)
    if not given or run is None:
        return ()
    if given is True:
        return default_choices((run, versus), in_numbers=view == "numbers")
    try:
        return read_choices(given, (run, versus))
    except InvalidProblem as error:
        table.expect(False, "live", given, f"{accepted}: {error}")
        return ()


def _run(table: Table, field: str, given: Any, base: RunName | None) -> RunName | None:
    """The run of a problem that is named as a preset, or as a table of its fields."""
    accepted = f"one of {', '.join(PRESETS)}, or a table of fields, with one of these as preset"
    if isinstance(given, str):
        given = {"preset": given}
    if not table.expect(bool(given), field, given, accepted):
        return None
    changes = {name: value for name, value in given.items() if name != "preset"}
    preset = given.get("preset")
    is_known = isinstance(preset, str) and preset in PRESETS
    if preset is not None and not table.expect(is_known, field, preset, accepted):
        return None
    unknown = [name for name in changes if name not in PROBLEM_FIELDS]
    if not table.expect(not unknown, field, unknown, f"fields among {', '.join(PROBLEM_FIELDS)}"):
        return None
    start = base.problem if base else (PRESETS[preset].problem if preset else None)
    try:
        problem = start.with_(**changes) if start else AttentionProblem(**changes)
    except (InvalidProblem, TypeError) as error:
        table.expect(False, field, changes, f"a valid problem: {error}")
        return None
    algorithm = (PRESETS[preset].algorithm if preset else None) or "flash2"
    return RunName(problem, base.algorithm if base else algorithm)


def _versus(table: Table, given: dict, run: RunName) -> RunName | None:
    """The second run of a duel: what is not given is as in the first."""
    algorithm = given.get("algorithm", run.algorithm)
    is_known = isinstance(algorithm, str) and algorithm in ALGORITHMS
    if not table.expect(is_known, "versus", algorithm, f"an algorithm among {', '.join(ALGORITHMS)}"):
        return None
    changes = {name: value for name, value in given.items() if name != "algorithm"}
    other = _run(table, "versus", changes, run) if changes else run
    return _with_own_tiles(table, "versus", RunName(other.problem, algorithm), given) if other else None


def _with_own_tiles(table: Table, field: str, name: RunName, given: str | dict) -> RunName | None:
    """The run with the algorithm's own tiles, unless `given` names tiles; None if it does not take them."""
    entry, named = ALGORITHMS[name.algorithm], given if isinstance(given, dict) else {}
    problem = name.problem if named.keys() & {"block_m", "block_n"} else entry.with_own_tiles(name.problem)
    fits = table.expect(not (refused := entry.refusal(problem)), field, name.algorithm, f"another: {refused}")
    return RunName(problem, name.algorithm) if fits else None


def _stops(table: Table, is_duel: bool, first: str = "") -> tuple[Stop, ...]:
    """Where the scene begins and where it waits."""
    pattern = PLACE if is_duel else STEP
    accepted = '"race:500" or "steps:37"' if is_duel else '"37", "37.2" for its second phase, or "gpu:12"'
    first = first or ("race:0" if is_duel else "0")
    stops = [Stop(table.text("step", default=first))]
    table.expect(bool(pattern.fullmatch(stops[0].step)), "step", stops[0].step, accepted)
    for each in table.take("stops", list, f"a list of places such as {accepted}", default=[]):
        stop = {"step": each} if isinstance(each, str) else each
        words = f"a place such as {accepted}, or a table of step and sentence"
        fits = isinstance(stop, dict) and set(stop) <= {"step", "sentence"}
        fits = fits and all(isinstance(value, str) for value in stop.values())
        if table.expect(fits and bool(pattern.fullmatch(stop.get("step", ""))), "stops", each, words):
            stops.append(Stop(stop["step"], stop.get("sentence", "").strip()))
    return tuple(stops)


def scene_toml(scene: Scene) -> str:
    """A scene as the text that `parse_talk` reads."""
    lines = ["[[scene]]", _line("title", scene.title), _line("sentence", scene.sentence)]
    lines += [_line("chart", scene.chart.as_table())] if scene.chart else _run_lines(scene)
    lines += [_line("step", scene.stops[0].step)]
    later = [
        {"step": stop.step} | ({"sentence": stop.sentence} if stop.sentence else {})
        for stop in scene.stops[1:]
    ]
    optional = {"stops": later, "row": scene.row, "hidden": list(scene.hidden), "tells": scene.tells}
    optional["live"] = {choice.name: list(choice.values) for choice in scene.live}
    optional |= {"gpu": scene.gpu if scene.gpu != DEFAULT_GPU else "", "notes": scene.notes}
    lines += [_line(name, value) for name, value in optional.items() if value]
    return "\n".join(lines) + "\n"


def _run_lines(scene: Scene) -> list[str]:
    assert scene.run
    preset = next((name for name, each in PRESETS.items() if each.problem == scene.run.problem), "")
    lines = [_line("problem", preset or scene.run.problem.as_dict())]
    lines += [_line("algorithm", scene.run.algorithm)]
    if scene.versus:
        one, other = scene.run.problem.as_dict(), scene.versus.problem.as_dict()
        changes = {name: value for name, value in other.items() if value != one[name]}
        lines += [_line("versus", {"algorithm": scene.versus.algorithm} | changes)]
    return [*lines, _line("view", scene.view)]


def _line(name: str, value: Any) -> str:
    return f"{name} = {_value(value)}"


def _value(value: Any) -> str:
    """A TOML value; JSON writes texts, numbers and truth values alike."""
    if isinstance(value, dict):
        return "{ " + ", ".join(_line(name, each) for name, each in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(each) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)
