"""A row of scores in its blocks, and the passes over it, as HTML."""

from __future__ import annotations

import numpy as np

from kernels.lessons.softmax import OnlineStep, PassesRun
from viz.shared import theme
from viz.shared.formats import format_number
from viz.shared.glossary import symbol_class


def row_html(x: np.ndarray, steps: tuple[OnlineStep, ...], now: int, colors: theme.Palette) -> str:
    """The row x (n,) in blocks, seen, at work (`now`) or waiting; below each number its exp(x - m)."""
    m = steps[now].m
    blocks = []
    for index, step in enumerate(steps):
        look = "now" if index == now else "seen" if index < now else "waiting"
        numbers = "".join(_number(value, m if index <= now else None) for value in x[step.start : step.end])
        blocks.append(f'<div class="block {look}">{numbers}</div>')
    names = '<div class="names"><span>x</span><span>e<sup>x−m</sup></span></div>'
    drawn = names + "".join(blocks) + _state(steps[now])
    return f'{_style(colors)}<div class="score-row">{drawn}</div>'


def _state(step: OnlineStep) -> str:
    """m, alpha and l after the block at work."""
    shown = (("m", step.m, 6), ("α", step.alpha, 4), ("l", step.l, 4))
    drawn = "".join(
        f'<div class="{symbol_class(name)}"><b>{format_number(value, digits)}</b><span>{name}</span></div>'
        for name, value, digits in shown
    )
    return f'<div class="state">{drawn}</div>'


def _number(value: float, m: float | None) -> str:
    under = "·" if m is None else format_number(np.exp(value - m))
    top = f' class="top {symbol_class("m")}"' if m is not None and value == m else ""
    return f"<div{top}><b>{format_number(value, 6)}</b><span>{under}</span></div>"


def passes_html(ways: dict[str, PassesRun], reads_done: int, colors: theme.Palette) -> str:
    """Each way with a strip of blocks per pass after `reads_done` reads: read, being read, or unread."""
    drawn = "".join(_way(name, run, reads_done) for name, run in ways.items())
    return f'{_style(colors)}<div class="pass-ways">{drawn}</div>'


def _way(name: str, run: PassesRun, reads_done: int) -> str:
    done = reads_done >= len(run.reads)
    strips = []
    for index, finds in enumerate(run.passes):
        blocks = "".join(
            _read(read, reads_done, done)
            for read, (this_pass, _) in enumerate(run.reads)
            if this_pass == index
        )
        strips.append(
            f'<div class="strip"><span class="finds">pass {index + 1}: {finds}</span>{blocks}</div>'
        )
    known = run.known[min(reads_done, len(run.reads)) - 1]
    values = " &nbsp; ".join(
        f"{key} = {'?' if value is None else format_number(value, 4)}" for key, value in vars(known).items()
    )
    progress = (
        f"done after {len(run.reads)} blocks, {run.elements_read:,} scores"
        if done
        else f"{min(reads_done, len(run.reads))} of {len(run.reads)} blocks read"
    )
    return (
        f'<section class="{"done" if done else ""}"><h4>{name}</h4>{"".join(strips)}'
        f"<p><b>{values}</b><br>{progress}</p></section>"
    )


def _read(read: int, reads_done: int, done: bool) -> str:
    """The block of one read; the last of those done is being read until the way is done."""
    if read >= reads_done:
        look = "unread"
    elif read == reads_done - 1 and not done:
        look = "reading"
    else:
        look = "read"
    return f'<i class="{look}"></i>'


def _style(colors: theme.Palette) -> str:
    return f"""<style>
.score-row {{ display: flex; flex-wrap: wrap; gap: 0.4rem; color: {colors.text};
  font-variant-numeric: tabular-nums; }}
.score-row .names, .score-row .block > div {{ display: flex; flex-direction: column;
  align-items: center; justify-content: space-between; }}
.score-row .names {{ color: {colors.muted}; padding: 0.25rem 0; }}
.score-row .block {{ display: flex; flex-wrap: wrap; border: 2px solid {colors.line};
  border-radius: 8px; padding: 0.15rem 0.2rem; }}
.score-row .block > div {{ min-width: 3.6rem; padding: 0.05rem 0.3rem; border-radius: 5px; }}
.score-row .state {{ display: flex; margin-left: 1rem; padding: 0.15rem 0.4rem; border-radius: 8px;
  background: color-mix(in srgb, {colors.state} 12%, transparent); }}
.score-row .state > div {{ display: flex; flex-direction: column; align-items: center;
  justify-content: space-between; min-width: 4.5rem; }}
.score-row b {{ font-size: 1.5rem; line-height: 1.3; }}
.score-row span {{ font-size: 1rem; color: {colors.muted}; }}
.score-row .now {{ border-color: {colors.now};
  background: color-mix(in srgb, {colors.now} 12%, transparent); }}
.score-row .seen {{ border-color: {colors.state};
  background: color-mix(in srgb, {colors.state} 12%, transparent); }}
.score-row .waiting b {{ color: {colors.muted}; font-weight: 400; }}
.score-row .block > div.top {{ outline: 2px solid {colors.text}; }}
.pass-ways {{ display: flex; flex-wrap: wrap; gap: 1rem; color: {colors.text}; }}
.pass-ways section {{ flex: 1 1 19rem; border: 2px solid {colors.line}; border-radius: 8px;
  padding: 0.5rem 0.9rem; }}
.pass-ways section.done {{ border-color: {colors.good}; }}
.pass-ways h4 {{ margin: 0; padding: 0 0 0.3rem; font-size: 1.25rem; }}
.pass-ways .strip {{ display: flex; flex-wrap: wrap; align-items: center; gap: 3px; min-height: 2.3rem; }}
.pass-ways .finds {{ flex: 0 0 7.4rem; font-size: 1.05rem; }}
.pass-ways .strip i {{ flex: 1 1 0.6rem; min-width: 0.4rem; max-width: 3rem; height: 1.5rem;
  border: 1px solid {colors.muted}; border-radius: 3px; }}
.pass-ways i.read {{ background: color-mix(in srgb, {colors.state} 45%, transparent); }}
.pass-ways i.reading {{ background: {colors.now}; border-color: {colors.now}; }}
.pass-ways p {{ margin: 0.4rem 0 0; font-size: 1.05rem; }}
.pass-ways section.done b {{ color: {colors.good}; }}
</style>"""
