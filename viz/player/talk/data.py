"""A talk and its runs -> what the stage shows, as plain JSON values, and as one HTML file.

Notes are kept apart: only the speaker's window is given them.
"""

import base64
import hashlib
import json
from collections.abc import Callable

import msgspec

from kernels.device.gpus import GPUS
from kernels.measure.measurement import Measurement
from kernels.trace import Trace
from viz.player.data import duel_clock, player_data
from viz.player.drawn import drawn_of
from viz.player.html_page import CSS, html_page, json_element, style_sheets
from viz.player.talk.chart import InvalidChart, chart_data, chart_figures
from viz.player.talk.figures import UnknownFigure, filled, run_figures
from viz.player.talk.places import misplaced
from viz.player.talk.read import Findings
from viz.player.talk.scene import InvalidTalk, Scene, Talk
from viz.shared.run_request import RunRequest
from viz.shared.theme import palettes_for_player

TALK_CSS = style_sheets("screen", "talk")
PRINT_CSS = style_sheets("print")
TALK_MOUNT = '<div class="fa-talk" role="application" aria-label="talk" tabindex="-1"></div>'

Runs = dict[RunRequest, tuple[Trace, str]]
"""Trace and provenance of each run that a talk shows."""
PLAIN = "{steps} tile steps, {bytes} moved."
"""Stands in for a sentence with a number that a run here does not have, such as a recorded time."""
Measured = Callable[[RunRequest], Measurement | None]


def talk_data(talk: Talk, runs: Runs, measured: Measured = lambda run: None, is_picked: bool = False) -> dict:
    """Everything that the stage needs. Each run is sent once, whatever the number of scenes that show it.

    Raises InvalidTalk for words and places that a run does not have, and for a chart that was not recorded.
    If it `is_picked`, the runs are not those that the talk was written for: no place is checked, and PLAIN
    stands in for words that they have no number for.
    """
    asked = {(run, scene.gpu): None for scene in talk.scenes for run in scene.runs}
    keys = {each: f"run {number}" for number, each in enumerate(asked)}
    data: dict = {"title": talk.title, "minutes": talk.minutes, "palettes": palettes_for_player()}
    data["runs"] = {keys[run, gpu]: player_data(*runs[run], GPUS[gpu]) for run, gpu in asked}
    data |= {"duels": {}, "scenes": [], "notes": []}
    findings = Findings()
    for number, scene in enumerate(talk.scenes, 1):
        where = f"{talk.file}, scene {number} “{scene.title}”"
        if scene.runs and not is_picked:
            drawn = [drawn_of(runs[run][0], GPUS[scene.gpu].sm_count) for run in scene.runs]
            for field, words in misplaced(scene, drawn):
                findings.add(where, f"{field}: {words}")
        try:
            figures = scene_figures(scene, runs, measured)
            chart = chart_data(scene.chart) if scene.chart else None
        except InvalidChart as error:
            findings.add(where, f"chart: {error}")
            continue
        said = _said(scene, figures, where, None if is_picked else findings)
        data["notes"].append(said.pop("notes"))
        shown = {keys[run, scene.gpu]: data["runs"][keys[run, scene.gpu]] for run in scene.runs}
        if scene.versus:
            data["duels"][" ".join(shown)] = _duel(scene, shown, runs)
        data["scenes"].append(said | _scene(scene, shown, chart))
    if findings:
        raise InvalidTalk("\n".join(findings))
    return data | {"id": hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16]}


def without_notes(data: dict) -> dict:
    """What the audience's window is given."""
    return {name: value for name, value in data.items() if name != "notes"}


def _duel(scene: Scene, shown: dict[str, dict], runs: Runs) -> dict:
    one, other = (runs[run][0] for run in scene.runs)
    clock = duel_clock(one, other, GPUS[scene.gpu])
    title = " against ".join(run["title"] for run in shown.values())
    return clock | {"id": " ".join(shown), "title": title, "runs": list(shown)}


def scene_figures(scene: Scene, runs: Runs, measured: Measured) -> dict[str, str]:
    """Name to text of the numbers that the words of a scene may use."""
    if scene.chart:
        return chart_figures(scene.chart)
    one, *other = [run_figures(runs[run][0], GPUS[scene.gpu], measured(run)) for run in scene.runs]
    return one | {f"other_{name}": value for each in other for name, value in each.items()}


def _said(scene: Scene, figures: dict[str, str], where: str, findings: Findings | None) -> dict:
    """The words of a scene with their numbers; without `findings`, PLAIN for those without a number."""

    def said(field: str, words: str) -> str:
        try:
            return filled(words, figures)
        except UnknownFigure as error:
            if findings is None:
                return filled(PLAIN, figures)
            findings.add(where, f"{field}: {error}")
            return words

    words: dict = {field: said(field, getattr(scene, field)) for field in ("title", "sentence", "notes")}
    said_at = [said(f"stops, {stop.step}", stop.sentence) for stop in scene.stops]
    stops = [
        msgspec.to_builtins(stop) | {"sentence": sentence}
        for stop, sentence in zip(scene.stops, said_at, strict=True)
    ]
    return words | {"stops": stops}


def _scene(scene: Scene, shown: dict[str, dict], chart: dict | None) -> dict:
    return {
        "run": next(iter(shown), ""),
        "chart": chart,
        "duel": " ".join(shown) if scene.versus else "",
        "view": scene.view,
        "row": scene.row,
        "hidden": list(scene.hidden),
        "tells": scene.tells,
        "source": chart["source"] if chart else _source(list(shown.values())),
        "live": [
            {"name": choice.name, "values": choice.words, "present": choice.present(run.problem)}
            for run in scene.runs[:1]
            for choice in scene.live
        ],
    }


def _source(shown: list[dict]) -> str:
    """What was run and where it is from; of two runs, whose titles stand above them, where each is from."""
    if len(shown) == 1:
        return f"{shown[0]['title']} · {shown[0]['provenance']}"
    one, other = (run["provenance"] for run in shown)
    return f"A and B: {one}" if one == other else f"A: {one} · B: {other}"


def export_talk(data: dict, with_speaker: bool) -> str:
    """The whole talk as one HTML page; `with_speaker`: with the notes, encoded, and the speaker's window."""
    notes = base64.b64encode(json.dumps(data["notes"]).encode()).decode() if with_speaker else ""
    body = TALK_MOUNT + json_element("talk", without_notes(data)) + json_element("notes", notes)
    return html_page(data["title"], CSS + TALK_CSS + PRINT_CSS, body, "talk_page.js")
