"""A talk and its runs -> what the stage shows, as plain JSON values, and as one HTML file.

Every run is sent once, whatever the number of scenes that show it. Notes are kept apart: only the speaker's
window is given them.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Collection

from kernels.device.gpus import GPUS
from kernels.measure.measurement import Measurement
from kernels.trace import Trace
from viz.player.chart import InvalidChart, chart_data, chart_figures
from viz.player.data import duel_clock, player_data
from viz.player.html_page import CSS, html_page, json_element, style_sheets
from viz.player.places import misplaced
from viz.player.scene import InvalidTalk, RunName, Scene, Talk
from viz.player.scene_figures import UnknownFigure, filled, run_figures
from viz.player.scene_table import finding
from viz.player.what_if import Choice
from viz.shared.theme import palettes_for_player

TALK_CSS = style_sheets("screen", "talk")
PRINT_CSS = style_sheets("print")
TALK_MOUNT = '<div class="fa-talk" role="application" aria-label="talk" tabindex="-1"></div>'

Runs = dict[RunName, tuple[Trace, str]]
"""Trace and provenance of each run that a talk shows."""
Measured = Callable[[RunName], Measurement | None]


def run_names(talk: Talk) -> list[RunName]:
    """The runs that the scenes show, each once."""
    named = [name for scene in talk.scenes for name in (scene.run, scene.versus) if name]
    return list(dict.fromkeys(named))


def talk_data(
    talk: Talk,
    runs: Runs,
    measured: Measured = lambda name: None,
    checks_places: bool = True,
    stand_ins: Collection[RunName] = (),
) -> dict:
    """Everything that the stage needs.

    Raises InvalidTalk for words that a run does not have, and for a chart that was not recorded.
    `checks_places`: also for steps and rows that the run does not have. `stand_ins` are those of which `runs`
    holds another problem's run: no place is checked in them.
    """
    data: dict = {"title": talk.title, "minutes": talk.minutes, "runs": {}, "duels": {}, "scenes": []}
    data["palettes"] = palettes_for_player()
    notes: list[str] = []
    findings: list[str] = []
    for number, scene in enumerate(talk.scenes, 1):
        where = f"{talk.file}, scene {number} “{scene.title}”"
        shown = [_add_run(data["runs"], runs, name, scene) for name in (scene.run, scene.versus) if name]
        try:
            figures = scene_figures(scene, runs, measured)
            chart = chart_data(scene.chart) if scene.chart else None
        except InvalidChart as error:
            findings.append(finding(where, f"chart: {error}"))
            continue
        stands_in = scene.run in stand_ins or scene.versus in stand_ins
        if shown and checks_places and not stands_in:
            wrong = misplaced(scene, [data["runs"][each] for each in shown])
            findings += [finding(where, f"{field}: {words}") for field, words in wrong]
        words = {field: getattr(scene, field) for field in ("title", "sentence", "notes")}
        words |= {f"stops, {stop.step}": stop.sentence for stop in scene.stops}
        for field, text in words.items():
            try:
                words[field] = filled(text, figures)
            except UnknownFigure as error:
                findings.append(finding(where, f"{field}: {error}"))
        notes.append(words.pop("notes"))
        duel = _add_duel(data, shown, runs, scene) if scene.versus else ""
        data["scenes"].append(_scene(scene, words, data["runs"], shown, duel, chart))
    if findings:
        raise InvalidTalk("\n".join(findings))
    data["notes"] = notes
    return data | {"id": hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16]}


def without_notes(data: dict) -> dict:
    """What the audience's window is given."""
    return {name: value for name, value in data.items() if name != "notes"}


def _add_run(sent: dict[str, dict], runs: Runs, name: RunName, scene: Scene) -> str:
    """Put a run among those that are sent, unless it is there; returns its id."""
    trace, provenance = runs[name]
    run = player_data(trace, provenance, GPUS[scene.gpu])
    return next((key for key, each in sent.items() if each == run), None) or _put(sent, run)


def _put(sent: dict[str, dict], run: dict) -> str:
    key = f"{run['id']}.{len(sent)}"  # the id does not tell the capacity of two GPUs apart
    sent[key] = run
    return key


def _add_duel(data: dict, shown: list[str], runs: Runs, scene: Scene) -> str:
    assert scene.run
    assert scene.versus
    key = " ".join(shown)
    if key not in data["duels"]:
        clock = duel_clock(runs[scene.run][0], runs[scene.versus][0], GPUS[scene.gpu])
        data["duels"][key] = clock | {
            "id": key,
            "title": " against ".join(data["runs"][each]["title"] for each in shown),
            "runs": shown,
        }
    return key


def scene_figures(scene: Scene, runs: Runs, measured: Measured) -> dict[str, str]:
    """Name to text of the numbers that the words of a scene may use."""
    if scene.chart:
        return chart_figures(scene.chart)
    assert scene.run
    figures = run_figures(runs[scene.run][0], GPUS[scene.gpu], measured(scene.run))
    if scene.versus:
        other = run_figures(runs[scene.versus][0], GPUS[scene.gpu], measured(scene.versus))
        figures |= {f"other_{name}": value for name, value in other.items()}
    return figures


def _scene(
    scene: Scene,
    words: dict[str, str],
    runs: dict[str, dict],
    shown: list[str],
    duel: str,
    chart: dict | None,
) -> dict:
    source = chart["source"] if chart else _source([runs[key] for key in shown])
    return {
        "title": words["title"],
        "sentence": words["sentence"],
        "stops": [{"step": stop.step, "sentence": words[f"stops, {stop.step}"]} for stop in scene.stops],
        "run": shown[0] if shown else "",
        "chart": chart,
        "duel": duel,
        "view": scene.view,
        "row": scene.row,
        "hidden": list(scene.hidden),
        "tells": scene.tells,
        "source": source,
        "live": [_choice(choice, scene.run) for choice in scene.live if scene.run],
    }


def _choice(choice: Choice, run: RunName) -> dict:
    words = [choice.words(index) for index in range(len(choice.values))]
    return {"name": choice.name, "values": words, "present": choice.present(run.problem)}


def _source(shown: list[dict]) -> str:
    """What was run and where it is from; of two runs, whose titles stand above them, where each is from."""
    if len(shown) == 1:
        return f"{shown[0]['title']} · {shown[0]['provenance']}"
    origins = [run["provenance"] for run in shown]
    if len(set(origins)) == 1:
        return f"A and B: {origins[0]}"
    return " · ".join(f"{name}: {origin}" for name, origin in zip("AB", origins, strict=True))


def export_talk(data: dict, with_speaker: bool) -> str:
    """The whole talk as one HTML page that needs no other file; `with_speaker`: with the speaker's window.

    Notes are encoded, and the audience's window drops them before it shows anything. Printed, it has a page
    per scene, from the speaker's window with the notes.
    """
    notes = base64.b64encode(json.dumps(data["notes"]).encode()).decode() if with_speaker else ""
    body = TALK_MOUNT + json_element("talk", without_notes(data)) + json_element("notes", notes)
    return html_page(data["title"], CSS + TALK_CSS + PRINT_CSS, body, "talk_page.js")
