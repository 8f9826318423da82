"""The five ideas as HTML: five boxes, an arrow from each to what it needs, and what falls without one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Box:
    """One idea: what it does, its number on the reader's shape, and its state."""

    name: str
    does: str
    number: str
    state: str = "stands"
    """ "stands", "out", "falls", or "idle" if it would work but has nothing to do."""


PLACES = {
    "fusion": (1, 1),
    "tiling": (1, 3),
    "online softmax": (1, 5),
    "recomputation": (3, 1),
    "lse": (3, 5),
}
"""idea -> (row, column) in a grid; its even rows and columns hold the arrows."""

ARROWS = {
    ("fusion", "tiling"): ("1 / 2", "right"),
    ("tiling", "online softmax"): ("1 / 4", "right"),
    ("fusion", "recomputation"): ("2 / 1", "down"),
    ("recomputation", "lse"): ("3 / 2 / 4 / 5", "right"),
}
"""(needs, needed) -> grid area and direction."""

HEADS = {"right": "▶", "down": "▼"}
STATE_WORDS = {"stands": "", "out": "left out", "falls": "falls", "idle": "not needed"}


def idea_map_html(boxes: Sequence[Box], arrows: Iterable[Sequence[str]]) -> str:
    """Boxes, and an arrow from an idea to the one that it needs: (needs, needed, why)."""
    states, drawn = {box.name: box.state for box in boxes}, ""
    for box in boxes:
        row, column = PLACES[box.name]
        state = f"<em>{STATE_WORDS[box.state]}</em>" if STATE_WORDS[box.state] else ""
        drawn += (
            f'<section class="{box.state}" style="grid-row: {row}; grid-column: {column}">'
            f"<h4>{box.name} {state}</h4><p>{box.does}</p><strong>{box.number}</strong></section>"
        )
    for needs, needed, why in arrows:
        look = _look(states[needs], states[needed])
        area, direction = ARROWS[needs, needed]
        head = "✕" if look == "broken" else HEADS[direction]
        drawn += (
            f'<div class="arrow {direction} {look}" style="grid-area: {area}"><i>{head}</i>'
            f'<span><span class="who">{needs} needs {needed}: </span>{why}</span></div>'
        )
    return f'<div class="idea-map">{drawn}</div>'


def _look(needs: str, needed: str) -> str:
    """The look of an arrow between boxes in these states: broken if the one falls for want of the other."""
    if needs == "falls" and needed in ("out", "falls"):
        return "broken"
    return "moot" if needs in ("out", "idle") or needed in ("out", "idle") else ""
