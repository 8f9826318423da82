"""Where a player can stand: how its state is written, and whether a run has such a step or row. Pure."""

import re
from collections.abc import Sequence

from viz.player.drawn import Drawn

RACE_END = 1000
_NUMBER = "[0-9]{1,12}"  # int() takes no number of thousands of digits, which a URL may hold
STEP = re.compile(rf"(gpu:)?{_NUMBER}(\.{_NUMBER})?|{_NUMBER}\.P")
PLACE = re.compile(rf"bytes:{_NUMBER}")
ROW = re.compile(rf"{_NUMBER}\.{_NUMBER}")
PATTERNS = {
    "step": (STEP, "a number of steps such as 37, a phase such as 37.2, weights such as 37.P, or gpu:12"),
    "row": (ROW, "head and row, such as 0.20"),
    "place": (PLACE, f"bytes:0 to bytes:{RACE_END}"),
    "unit": (re.compile("tile|phase|program"), "tile, phase or program"),
    "open": (re.compile("tile"), "tile"),
    "lanes": (re.compile("open"), "open"),
}
"""How the values of a player's state are written, and in words."""


def is_written(name: str, given: str) -> bool:
    """Whether a value of a player's state has the form of one."""
    return PATTERNS[name][0].fullmatch(given) is not None


def wrong_state(name: str, given: str, shown: Sequence[Drawn]) -> str:
    """What is wrong with a value of `html_page.State` for this run, or both runs; "" if it is right."""
    if not is_written(name, given):
        return f"is not accepted: expected {PATTERNS[name][1]}"
    if name == "row":
        return wrong_row(given, shown[0])
    return wrong_step(given, shown) if name in ("step", "place") else ""


def wrong_step(step: str, shown: Sequence[Drawn]) -> str:
    """Why there is no such step, moment or place of a race; "" if there is."""
    order, colon, position = step.rpartition(":")
    done, _, phase = position.partition(".")
    last = {"bytes": RACE_END, "gpu": shown[0].moments}.get(order, max(run.count for run in shown))
    if int(done) > last or (phase and int(done) == last):
        return f"is past the end; expected {order}{colon}0 to {order}{colon}{last}"
    count = len(shown[0].tells(int(done))) if phase and not order else 0
    if phase.isdigit() and not order and not 0 < int(phase) <= count:
        accepted = f"{done}.1 to {done}.{count}" if count else done
        return f"is not a phase of that step; expected {accepted}"
    return ""


def wrong_row(row: str, run: Drawn) -> str:
    """Why there is no such row; "" if there is."""
    head, number = map(int, row.split("."))
    block, rows = run.trace.problem.block_m, run.algorithm.rows(run.trace.problem)
    heads, tiles = sorted(set(run.head.tolist())), run.tile_numbers or range(run.q_tiles)
    if head not in heads or number >= rows:
        known, first = ", ".join(map(str, heads)), heads[0]
        return f"is past the end; expected head {known}, such as {first}.0 to {first}.{rows - 1}"
    if number // block in tiles and number % block in run.offsets:
        return ""
    drawn = [tile * block + offset for tile in tiles for offset in run.offsets]
    nearest = min(drawn, key=lambda each: abs(each - number))
    return f"is not among the rows that are drawn of so large a run; the nearest is {head}.{nearest}"


def tile_at(step: str, run: Drawn) -> tuple[int, int]:
    """Head and query tile of the step in progress or just done; (-1, -1) at a moment."""
    done, _, phase = step.partition(".")
    if not done.isdigit():
        return -1, -1
    index = min(int(done) - (0 if phase or done == "0" else 1), run.count - 1)
    tile = int(run.q[index])
    return int(run.head[index]), run.tile_numbers[tile] if run.tile_numbers else tile
