"""Whether the steps and the row of a scene are in its run. Pure."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kernels.problem.tiles import TileKind
from viz.player.scene import PLACE, ROW, STEP, Scene, Stop
from viz.player.tiles import KIND_CODES

RACE_END = 1000
STEP_ARRAYS = (("turn", "<u4"), ("q", "<i4"), ("kv", "<i4"))


def misplaced(scene: Scene, shown: list[dict]) -> Iterator[tuple[str, str]]:
    """The fields of a scene that its run does not have, each with what was given and what is accepted.

    `shown` is the `player_data` of its run, or of both runs.
    """
    for number, stop in enumerate(scene.stops):
        field = "stops" if number else "step"
        order, _, position = stop.step.rpartition(":")
        wrong = _wrong_step(order, position, shown)
        if wrong:
            yield field, f"{stop.step!r} {wrong}"
    if scene.view == "numbers" and not shown[0]["matrices"]:
        words = (
            "'numbers', but this run has no numbers; expected tiles of at most 16 × 16 and head_dim up to 64"
        )
        yield "view", f"{words}, such as tiny"
    elif "state" in scene.hidden and (wrong := _known_too_early(scene.stops[0].step, shown[0])):
        yield "hidden", f"'state' {wrong}"
    if scene.row and not scene.versus:
        wrong = _wrong_row(scene, shown[0])
        if wrong:
            yield "row", f"{scene.row!r} {wrong}"


def well_placed(scene: Scene, shown: list[dict]) -> Scene:
    """A scene of one stop without the step and the row that its run does not have."""
    wrong = {field for field, _ in misplaced(scene, shown)}
    first = Stop("race:0" if scene.versus else "0")
    scene = replace(scene, stops=(first,)) if "step" in wrong else scene
    return replace(scene, row="") if scene.row and "row" in dict(misplaced(scene, shown)) else scene


UNITS = ("tile", "phase", "program")
OPTIONS = {"unit": UNITS, "open": ("tile",), "lanes": ("open",)}
"""Values of a player's state that are one of a few."""
PATTERNS = {
    "step": (STEP, "a number of steps such as 37, a phase such as 37.2, or a moment such as gpu:12"),
    "row": (ROW, "head and row, such as 0.20"),
    "place": (PLACE, f"race:0 to race:{RACE_END}, or a number of steps such as steps:37"),
}
"""Of the others how they are written, and in words."""


def wrong_state(name: str, given: str, shown: list[dict]) -> str:
    """What is wrong with a value of a player's state; "" if it is right.

    The state is that of `viz.player.html_page.State`; `shown` is the data of its run, or of both runs.
    """
    if name in OPTIONS:
        if given in OPTIONS[name]:
            return ""
        *others, last = OPTIONS[name]
        return f"is not accepted: expected {', '.join(others)}{' or ' if others else ''}{last}"
    pattern, such_as = PATTERNS[name]
    if not pattern.fullmatch(given):
        return f"is not accepted: expected {such_as}"
    if name == "row":
        return _wrong_row(Scene("", "", None, row=given), shown[0])
    order, _, position = given.rpartition(":")
    return _wrong_step(order, position, shown)


def _wrong_step(order: str, position: str, shown: list[dict]) -> str:
    """Why there is no such step, moment or place of a race; "" if there is."""
    done, _, phase = position.partition(".")
    if order == "race":
        is_past = int(done) > RACE_END
        return f"is past the end; expected race:0 to race:{RACE_END}" if is_past else ""
    if order == "gpu":
        last = moments(shown[0])
        return f"is past the end; expected gpu:0 to gpu:{last}" if int(done) > last else ""
    most = max(run["steps"]["count"] for run in shown)
    prefix = f"{order}:" if order else ""
    if int(done) > most or (phase and int(done) == most):
        return f"is past the end; the run has {most:,} steps, expected {prefix}0 to {prefix}{most}"
    count = len(phases_at(shown[0], int(done))) if phase else 0
    if phase and not 0 < int(phase) <= count:
        accepted = f"{done}.1 to {done}.{count}" if count else done
        return f"is not a phase of that step; expected {accepted}"
    return ""


def _known_too_early(step: str, run: dict) -> str:
    """Why m of the first stop is no question any more; "" if it still is."""
    done, _, phase = step.partition(".")
    if not phase or int(done) >= run["steps"]["count"]:
        return f"is asked in a phase before the row max, and {step} is none; expected a step such as 1.2"
    told = [each["tells"] for each in phases_at(run, int(done))]
    place = told.index("row max") if "row max" in told else 0
    if not place:
        return f"is m, l and alpha of a forward pass, and step {done} has none"
    last = f"{done}.{place}"
    return f"is known at {step} already; expected a step up to {last}" if int(phase) > place else ""


def _wrong_row(scene: Scene, run: dict) -> str:
    """Why there is no such row, or why no stop shows it in its numbers; "" if it is right."""
    head, number = map(int, scene.row.split("."))
    problem, offsets = run["problem"], run["rows"]["offsets"]
    block = problem["block_m"]
    heads = sorted(set(_decoded(run, "head", "<u4").tolist()))
    if head not in heads:
        return f"is of another head; expected one of {_ranges(heads)}"
    if number >= problem["rows"]:
        return f"is past the end; expected {head}.0 to {head}.{problem['rows'] - 1}"
    drawn = problem["tile_numbers"] or range(problem["q_tiles"])
    if number // block not in drawn or number % block not in offsets:
        rows = [tile * block + offset for tile in drawn for offset in offsets]
        near = min(rows, key=lambda row: abs(row - number))
        return f"is not among the rows that are drawn of so large a run; the nearest is {head}.{near}"
    if scene.view != "numbers":
        return ""
    tiles = [_tile_of(stop.step, run) for stop in scene.stops]
    if (head, number // block) in tiles:
        return ""
    at, tile = tiles[0]
    last = min((tile + 1) * block, problem["rows"]) - 1
    return f"is not in the tile that is shown; expected {at}.{tile * block} to {at}.{last}"


def _tile_of(step: str, run: dict) -> tuple[int, int]:
    """Head and query tile that a stop shows in its numbers: of the step in progress or just done."""
    done, _, phase = step.partition(".")
    if not done.isdigit():
        return -1, -1
    index = min(int(done) - (0 if phase or done == "0" else 1), run["steps"]["count"] - 1)
    tile = int(_decoded(run, "q", "<i4")[index])
    numbers = run["problem"]["tile_numbers"]
    return int(_decoded(run, "head", "<u4")[index]), numbers[tile] if numbers else tile


def phases_at(run: dict, step: int) -> list[dict]:
    """The phases of a drawn step, as model.js finds them; a test holds the two together."""
    turn, q, kv = (int(_decoded(run, name, dtype)[step]) for name, dtype in STEP_ARRAYS)
    turns = _decoded(run, "turn", "<u4")
    before, own, after = run["kernels"][int(_decoded(run, "kernel", "u1")[step])]["phases"]
    kinds = np.frombuffer(base64.b64decode(run["kinds"]), np.uint8)
    has_tile = q >= 0 and kv >= 0
    is_whole = has_tile and kinds[q * run["problem"]["kv_tiles"] + kv] == KIND_CODES[TileKind.FULL]
    return [
        *(before if step == 0 or turns[step - 1] != turn else []),
        *(phase for phase in own if has_tile and not (phase["only_masked"] and is_whole)),
        *(after if step == len(turns) - 1 or turns[step + 1] != turn else []),
    ]


def moments(run: dict) -> int:
    """The last moment of all programs at once: one per time at which a step starts, and the end."""
    return len(np.unique(np.frombuffer(base64.b64decode(run["clock"]["start"]), "<u4"))) + 1


def _decoded(run: dict, name: str, dtype: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(run["steps"][name]), dtype)


def _ranges(numbers: list[int]) -> str:
    """ "0 to 7, 16": ascending numbers in words."""
    runs = itertools.groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    groups = [[number for _, number in group] for _, group in runs]
    return ", ".join(f"{group[0]} to {group[-1]}" if len(group) > 1 else f"{group[0]}" for group in groups)
