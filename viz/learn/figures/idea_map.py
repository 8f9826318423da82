"""The five ideas as HTML: five boxes, an arrow from each to what it needs, and what falls without one."""

from __future__ import annotations

from dataclasses import dataclass

from viz.shared import theme


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


def idea_map_html(boxes: list[Box], because: dict[tuple[str, str], str], colors: theme.Palette) -> str:
    """Boxes, and arrows from an idea to the one that it needs. `because`: (needs, needed) -> the reason."""
    states = {box.name: box.state for box in boxes}
    drawn = "".join(map(_box, boxes))
    arrows = "".join(_arrow(pair, words, _look(*map(states.get, pair))) for pair, words in because.items())
    return f'{_style(colors)}<div class="idea-map">{drawn}{arrows}</div>'


def _box(box: Box) -> str:
    row, column = PLACES[box.name]
    state = f"<em>{STATE_WORDS[box.state]}</em>" if STATE_WORDS[box.state] else ""
    return (
        f'<section class="{box.state}" style="grid-row: {row}; grid-column: {column}">'
        f"<h4>{box.name} {state}</h4><p>{box.does}</p><strong>{box.number}</strong></section>"
    )


def _look(needs: str | None, needed: str | None) -> str:
    """The look of an arrow between boxes in these states: broken if the one falls for want of the other."""
    if needs == "falls" and needed in ("out", "falls"):
        return "broken"
    return "moot" if needs in ("out", "idle") or needed in ("out", "idle") else ""


def _arrow(pair: tuple[str, str], words: str, look: str) -> str:
    area, direction = ARROWS[pair]
    head = "✕" if look == "broken" else HEADS[direction]
    return (
        f'<div class="arrow {direction} {look}" style="grid-area: {area}"><i>{head}</i>'
        f'<span><span class="who">{pair[0]} needs {pair[1]}: </span>{words}</span></div>'
    )


def _style(colors: theme.Palette) -> str:
    return f"""<style>
.idea-map {{ display: grid; grid-template-columns: 1fr 8rem 1fr 8rem 1fr; gap: 0.3rem 0.5rem;
  color: {colors.text}; align-items: stretch; }}
.idea-map section {{ border: 2px solid {colors.flash}; border-radius: 8px; padding: 0.45rem 0.8rem;
  background: {colors.surface}; }}
.idea-map h4 {{ margin: 0; padding: 0; font-size: 1.25rem; color: {colors.flash}; }}
.idea-map h4 em {{ float: right; font-style: normal; font-size: 0.95rem; padding: 0 0.5rem;
  border: 1.5px solid; border-radius: 1rem; }}
.idea-map p {{ margin: 0.1rem 0; font-size: 1rem; color: {colors.text}; }}
.idea-map strong {{ font-size: 1.05rem; font-variant-numeric: tabular-nums; }}
.idea-map section.out {{ border-style: dashed; border-color: {colors.muted}; background: none;
  opacity: 0.85; }}
.idea-map section.out h4 {{ color: {colors.muted}; }}
.idea-map section.idle {{ border-style: dotted; border-color: {colors.muted}; background: none; }}
.idea-map section.idle h4 {{ color: {colors.muted}; }}
.idea-map section.idle p, .idea-map section.idle strong {{ color: {colors.muted}; }}
.idea-map .arrow.moot span {{ text-decoration: line-through; }}
.idea-map section.idle strong, .idea-map section.out p, .idea-map section.out strong {{ color: {colors.muted};
  text-decoration: line-through; }}
.idea-map section.falls {{ border-color: {colors.bad};
  background: color-mix(in srgb, {colors.bad} 9%, transparent); }}
.idea-map section.falls h4 {{ color: {colors.bad}; }}
.idea-map section.falls strong {{ text-decoration: line-through; text-decoration-color: {colors.bad}; }}
.idea-map .arrow {{ display: flex; align-items: center; justify-content: center; gap: 0.4rem;
  color: {colors.muted}; font-size: 0.95rem;
  line-height: 1.15; text-align: center; }}
.idea-map .arrow.right {{ flex-direction: column-reverse; gap: 0; }}
.idea-map .arrow i {{ font-style: normal; font-size: 1.1rem; line-height: 1; color: {colors.text};
  display: flex; align-items: center; }}
.idea-map .arrow.right i {{ width: 100%; }}
.idea-map .arrow.right i::before {{ content: ""; flex: 1; height: 3px; background: currentColor; }}
.idea-map .arrow.broken, .idea-map .arrow.broken i {{ color: {colors.bad}; }}
.idea-map .who {{ display: none; }}
@media (max-width: 820px) {{
  .idea-map {{ display: flex; flex-direction: column; gap: 0.5rem; }}
  .idea-map .arrow, .idea-map .arrow.right {{ flex-direction: row; justify-content: flex-start;
    text-align: left; gap: 0.4rem; }}
  .idea-map .arrow.right i {{ width: auto; }}
  .idea-map .arrow.right i::before {{ content: none; }}
  .idea-map .who {{ display: inline; font-weight: 600; }}
}}
</style>"""
