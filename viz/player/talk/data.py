"""A talk and its runs -> what the stage shows, as plain JSON values, and as one HTML file.

Notes are kept apart: only the speaker's window is given them.
"""

import base64
import hashlib
import json
import string
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from kernels.algorithms import algorithm_of
from kernels.device.gpus import DEFAULT_GPU, GPUS, Gpu
from kernels.measure.measurement import Measurement
from kernels.recordings import recorded_measurement
from kernels.trace import Trace
from kernels.trace.algorithm import FLASH_ATTENTION, Algorithm
from kernels.trace.lanes import PRODUCT, SOFTMAX
from viz.player.data import player_data
from viz.player.drawn import Drawn, drawn_of, is_large
from viz.player.html_page import CSS, html_page, json_element, style_sheets
from viz.player.lanes import lanes_data, recorded_lane_runs
from viz.player.places import tile_at, wrong_row, wrong_step
from viz.player.talk.bars import Parts, bar_of, parts_of
from viz.player.talk.chart import InvalidChart, chart_data, chart_figures
from viz.player.talk.scene import Scene, Talk, wrong
from viz.player.tiles import KIND_CODES, tile_kinds
from viz.shared.formats import format_bytes, format_kib, format_ms, significant
from viz.shared.run_request import RunRequest
from viz.shared.theme import palettes_for_player


def misplaced(scene: Scene, shown: Sequence[Drawn]) -> Iterator[tuple[str, str]]:
    """The fields of a scene that its run, or both runs, do not have: field, and what is accepted."""
    for number, stop in enumerate(scene.stops):
        if wrong := wrong_step(stop.step, shown):
            yield "stops" if number else "step", f"{stop.step!r} {wrong}"
    if scene.view in ("numbers", "chip") and not shown[0].matrices:
        accepted = "tiles of at most 16 × 16 and head_dim up to 64, such as tiny"
        yield "view", f"'numbers', but this run has no numbers; expected {accepted}"
    if scene.row and not scene.versus and (wrong := _wrong_row(scene, shown[0])):
        yield "row", f"{scene.row!r} {wrong}"


def _wrong_row(scene: Scene, run: Drawn) -> str:
    """Why there is no such row, or why no stop shows it in its numbers; "" if it is right."""
    if wrong := wrong_row(scene.row, run):
        return wrong
    problem, (head, number) = run.trace.problem, map(int, scene.row.split("."))
    tiles = [tile_at(stop.step, run) for stop in scene.stops]
    if scene.view not in ("numbers", "chip") or (head, number // problem.block_m) in tiles:
        return ""
    at, first = tiles[0][0], tiles[0][1] * problem.block_m
    last = min(first + problem.block_m, run.algorithm.rows(problem)) - 1
    return f"is not in the tile that is shown; expected {at}.{first} to {at}.{last}"


PROBLEM_FIELDS = ("q_len", "kv_len", "head_dim", "block_m", "block_n", "q_heads", "kv_heads", "kv_splits")


class UnknownFigure(ValueError):
    """A name in braces that the run has no number for."""


def run_figures(trace: Trace, gpu: Gpu) -> dict[str, str]:
    """Name to text of every number of a run: counted, modelled (standard attention), and measured times."""
    problem, algorithm = trace.problem, algorithm_of(trace)
    sums = (trace.tensor_bytes_read + trace.tensor_bytes_written).sum(axis=0)
    totals = {name: sum(dict(own).values()) for name, own in parts_of(trace).items() if "bytes" in name}
    figures = {name: f"{getattr(problem, name):,}" for name in (*PROBLEM_FIELDS, "q_tiles", "kv_tiles")}
    figures |= {
        "steps": f"{trace.steps:,}",
        "kernels": f"{algorithm.launches[-1] + 1}",
        "products": f"{sum(kernel.products for kernel in algorithm.kernels)}",
        "standard_ratio": significant(totals["standard_bytes"] / totals["bytes"], 2),
        "sms": f"{gpu.sm_count:,}",
        "device": trace.device.name,
    }
    if not algorithm.persistent:  # else the trace does not tell them
        programs = np.unique(np.stack([np.array(algorithm.launches)[trace.kernel], trace.program]), axis=1)
        figures["programs"] = f"{programs.shape[1]:,}"
    moved = dict(zip(trace.tensors, sums.tolist(), strict=True))
    figures |= {f"bytes_{name.replace(' ', '_')}": format_bytes(size) for name, size in moved.items()}
    figures |= {name: format_bytes(size) for name, size in totals.items()}
    if trace.end_ns is not None:
        figures["first_kernel_time"] = format_ms(float(trace.end_ns[trace.kernel == 0].max()) / 1e6)
    for memory, limit in gpu.program_limits.items():
        name = memory.replace(" ", "_")
        figures[name] = format_kib(algorithm.chip_bytes(problem, memory))
        figures[f"{name}_limit"] = format_kib(limit)
    return figures | _tiles(trace) | _rescales(trace) | _times(recorded_measurement(problem), algorithm)


def _tiles(trace: Trace) -> dict[str, str]:
    if is_large(trace.problem):
        return {}
    kinds = tile_kinds(trace.problem, algorithm_of(trace))
    skipped, masked, *_ = np.bincount(kinds.ravel(), minlength=len(KIND_CODES)).tolist()
    return {
        "tiles": f"{kinds.size:,}",
        "visited_tiles": f"{kinds.size - skipped:,}",
        "skipped_tiles": f"{skipped:,}",
        "masked_tiles": f"{masked:,}",
        "skipped_percent": f"{100 * skipped / kinds.size:.0f} %",
    }


def _rescales(trace: Trace) -> dict[str, str]:
    """How often a row's sums shrink after its first tile: alpha is below 1 although something was summed."""
    if trace.alpha is None:
        return {}
    later = trace.alpha[trace.alpha > 0]
    return {"rescaled_percent": f"{100 * (later < 1).mean() if later.size else 0:.0f} %"}


def _times(measurement: Measurement | None, algorithm: Algorithm) -> dict[str, str]:
    """Recorded times and peaks: our kernel as on Explore's cards, the public call, standard attention."""
    if measurement is None:
        return {}
    figures, peers = {}, {name: name for name in ("naive", "sdpa_flash", "flash2")}
    peers |= {"flash_attention": FLASH_ATTENTION.peer}
    peers |= {"ours": algorithm.timed_as.peer} if algorithm.timed_as.peer != "naive" else {}
    named = {name: measurement.result(peer, algorithm.direction) for name, peer in peers.items()}
    ours = named.get("ours")
    for name, result in named.items():
        if result and result.timing:
            figures[f"{name}_time"] = format_ms(result.timing.median_ms)
            if ours and ours.timing:
                figures[f"{name}_ratio"] = significant(result.timing.median_ms / ours.timing.median_ms, 2)
        if result and result.peak_extra_bytes is not None:
            figures[f"{name}_memory"] = format_bytes(result.peak_extra_bytes)
    return figures


def filled(words: str, figures: dict[str, str]) -> str:
    """Words with the names in braces replaced, without line breaks in numbers. Raises UnknownFigure."""
    try:
        found = [each[1:] for each in string.Formatter().parse(words) if each[1] is not None]
    except ValueError as error:
        raise UnknownFigure(f"{words[:60]!r}: {error}; write a brace itself as {{{{ or }}}}") from None
    for name, form, conversion in found:
        if form or conversion:
            raise UnknownFigure(f"{name!r} has more than a name in its braces; expected {{name}} alone")
        if name not in figures:
            known = ", ".join(sorted(each for each in figures if "scene_" not in each))
            raise UnknownFigure(f"{{{name}}} is not a number of this run; expected one of {known}")
    return words.format_map({name: text.replace(" ", "\N{NO-BREAK SPACE}") for name, text in figures.items()})


TALK_CSS = style_sheets("screen", "talk")
PRINT_CSS = style_sheets("print")
TALK_MOUNT = '<div class="fa-talk" role="application" aria-label="talk" tabindex="-1"></div>'

GPU = GPUS[DEFAULT_GPU]
"""Whose limits are drawn on the chip."""
STAGED: dict = {"standard_parts": [], "ticks": True}  # all bytes; used tiles stay ticked

Runs = dict[RunRequest, tuple[Trace, str]]
"""Trace and provenance of each run that a talk shows."""


def talk_data(talk: Talk, runs: Runs) -> dict:
    """Everything that the stage needs. Each run is sent once, whatever the number of scenes that show it.

    A scene without its runs is left out: what is wrong with the others is known before its runs are made.
    Raises InvalidTalk for words and places that a run does not have, and for a chart that was not recorded.
    """
    scenes = {n: scene for n, scene in enumerate(talk.scenes, 1) if runs.keys() >= {*scene.runs}}
    asked = dict.fromkeys(run for scene in scenes.values() for run in scene.runs)
    keys = {run: f"run {number}" for number, run in enumerate(asked)}
    data: dict = {"title": talk.title, "minutes": talk.minutes, "palettes": palettes_for_player()}
    data["runs"] = {key: player_data(*runs[run], GPU) | STAGED for run, key in keys.items()}
    data |= {"duels": {}, "scenes": [], "notes": []}
    earlier: dict[str, str] = {}
    parts: Parts = {}
    for number, scene in scenes.items():
        where = f"{talk.file}, scene {number} “{scene.title}”"
        if scene.runs:
            drawn = [drawn_of(runs[run][0], GPU) for run in scene.runs]
            for field, words in misplaced(scene, drawn):
                raise wrong(where, f"{field}: {words}")
        if scene.view == "lanes" and scene.run:
            lanes = recorded_lane_runs(scene.run.problem, algorithm_of(runs[scene.run][0]).direction)
            data["runs"][keys[scene.run]] |= {"lanes": lanes_data(lanes[::-1], (PRODUCT, SOFTMAX))}
            if not lanes:
                raise wrong(where, "view: 'lanes', but this problem has no recorded lanes; see Explore")
        try:
            figures = earlier | scene_figures(scene, runs)
            chart = chart_data(scene.chart) if scene.chart else None
        except InvalidChart as error:
            raise wrong(where, f"chart: {error}") from None
        for prefix, run in zip(("", "other_"), scene.runs, strict=False):
            parts |= {f"{prefix}{name}": own for name, own in parts_of(runs[run][0]).items()}
        said = _said(scene, figures, parts, where)
        earlier |= {f"scene_{number}_{name}": text for name, text in figures.items() if "scene_" not in name}
        parts |= {f"scene_{number}_{name}": own for name, own in parts.items() if "scene_" not in name}
        data["notes"].append(said.pop("notes"))
        shown = {keys[run]: data["runs"][keys[run]] for run in scene.runs}
        if scene.versus:
            title = " against ".join(run["title"] for run in shown.values())
            duel = {"id": " ".join(shown), "title": title, "runs": list(shown), "names": scene.names}
            data["duels"][duel["id"]] = duel
        data["scenes"].append(said | _scene(scene, shown, chart))
    return data | {"id": hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16]}


def without_notes(data: dict) -> dict:
    """What the audience's window is given."""
    return {name: value for name, value in data.items() if name != "notes"}


def scene_figures(scene: Scene, runs: Runs) -> dict[str, str]:
    """Name to text of the numbers that the words of a scene may use."""
    if scene.chart:
        return chart_figures(scene.chart)
    one, *other = [run_figures(runs[run][0], GPU) for run in scene.runs]
    if scene.view == "lanes" and scene.run:
        lanes = recorded_lane_runs(scene.run.problem, algorithm_of(runs[scene.run][0]).direction)
        for prefix, run in zip(("", "other_"), lanes, strict=False):
            one[f"{prefix}unmarked_time"] = format_ms(run.lanes.plain_us / 1e3)
            one[f"{prefix}hidden_percent"] = f"{100 * run.lanes.hidden_share:.0f} %"
        one["unmarked_ratio"] = significant(lanes[-1].lanes.plain_us / lanes[0].lanes.plain_us, 2)
    return one | {f"other_{name}": value for each in other for name, value in each.items()}


def _said(scene: Scene, figures: dict[str, str], parts: Parts, where: str) -> dict:
    """The words of a scene with their numbers."""

    def said(field: str, words: str) -> str:
        try:
            return filled(words, figures)
        except UnknownFigure as error:
            raise wrong(where, f"{field}: {error}") from None

    words: dict = {field: said(field, getattr(scene, field)) for field in ("title", "sentence", "notes")}
    stops = [
        msgspec.to_builtins(stop)
        | {"sentence": said(f"stops, {stop.step}", stop.sentence)}
        | {"bars": [bar_of(said(f"stops, {stop.step}, bars", each), each, parts) for each in stop.bars]}
        for stop in scene.stops
    ]
    return words | {"stops": stops}


def _scene(scene: Scene, shown: dict[str, dict], chart: dict | None) -> dict:
    source = chart["source"] if chart else _source(list(shown.values()))
    seen = {"view": scene.view, "row": scene.row, "chart": chart, "source": source}
    return seen | {"run": next(iter(shown), ""), "duel": " ".join(shown) if scene.versus else ""}


def _source(shown: list[dict]) -> str:
    """What was run and where it is from; of two runs, above which stands how they differ, what they share."""
    titles = [[run["label"], *run["title"].removeprefix(f"{run['label']}, ").split(", ")] for run in shown]
    told = [run["provenance"].split(", ") for run in shown]
    both = (", ".join(part for part in parts[0] if part in parts[-1]) for parts in (titles, told))
    own = [", ".join(part for part in parts if part not in told[~i]) for i, parts in enumerate(told)]
    return " · ".join([*both, *(f"{name}: {words}" for name, words in zip("AB", own, strict=False) if words)])


def export_talk(data: dict, with_speaker: bool) -> str:
    """The whole talk as one HTML page; `with_speaker`: with the notes, encoded, and the speaker's window."""
    notes = base64.b64encode(json.dumps(data["notes"]).encode()).decode() if with_speaker else ""
    body = TALK_MOUNT + json_element("talk", without_notes(data)) + json_element("notes", notes)
    return html_page(data["title"], CSS + TALK_CSS + PRINT_CSS, body, "talk_page.js")
