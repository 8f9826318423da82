"""Memories and matrices to scale: areas as bytes, bars as bytes per second and as seconds. As HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernels.device.gpus import Gpu
from kernels.lessons.memory import matrix_bytes, scores_bytes, square_side
from kernels.problem import AttentionProblem
from viz.shared import theme
from viz.shared.formats import format_bytes, format_kib
from viz.shared.glossary import symbol_class

HBM_SIDE = 230.0
"""Side of the square that stands for HBM, in px; all others follow from it."""
ZOOM_SIDE = 210.0
"""Side of the largest square of the magnified part."""


@dataclass(frozen=True)
class Bar:
    """One bar to scale."""

    label: str
    value: float
    words: str
    color: str
    """Palette entry."""
    symbol: str = ""


def to_scale_html(problem: AttentionProblem, gpu: Gpu, colors: theme.Palette) -> str:
    """HBM with S in it at one scale, and S beside Q and the SRAM of an SM, magnified."""
    scores, matrix = scores_bytes(problem), matrix_bytes(problem)
    side = square_side(scores, gpu.hbm_bytes, HBM_SIDE)
    zoom = ZOOM_SIDE / square_side(max(scores, gpu.shared_bytes_per_sm), gpu.hbm_bytes, HBM_SIDE)

    def square(size: float, symbol: str, color: str, name: str, words: str, magnified: bool = True) -> str:
        px = square_side(size, gpu.hbm_bytes, HBM_SIDE) * (zoom if magnified else 1)
        return (
            f'<figure class="{symbol_class(symbol)}"><i style="width:{px:.2f}px;height:{px:.2f}px;'
            f'--tensor:{getattr(colors, color)}"></i><figcaption><b>{name}</b> {words}</figcaption></figure>'
        )

    whole = (
        f'<figure class="{symbol_class("HBM")}">'
        f'<i class="hbm" style="width:{HBM_SIDE}px;height:{HBM_SIDE}px">'
        f'<u class="{symbol_class("S")}" style="width:{side:.2f}px;height:{side:.2f}px"></u></i>'
        f"<figcaption><b>HBM</b> {format_bytes(gpu.hbm_bytes)}. The small spot in its corner is S of one "
        "head.</figcaption></figure>"
    )
    near = "".join(
        (
            square(scores, "S", "standard", "S", f"{format_bytes(scores)}, the scores of one head"),
            square(matrix, "Q", "query", "Q", f"{format_bytes(matrix)}; K, V and O are as large"),
            square(
                gpu.shared_bytes_per_sm,
                "SRAM",
                "good",
                "SRAM of one SM",
                format_kib(gpu.shared_bytes_per_sm),
            ),
        )
    )
    return (
        f'{_style(colors)}<div class="to-scale"><section><h4>At one scale</h4>{whole}</section>'
        f"<section><h4>That spot, enlarged: {zoom:,.0f} times as wide</h4><div>{near}</div></section></div>"
    )


def bars_html(bars: Sequence[Bar], colors: theme.Palette) -> str:
    """Horizontal bars whose lengths are to each other as their values."""
    longest = max(bar.value for bar in bars)
    drawn = "".join(
        f'<div class="{symbol_class(bar.symbol)}"><span>{bar.label}</span><b><i style="width:'
        f'{100 * bar.value / longest:.2f}%;--tensor:{getattr(colors, bar.color)}"></i></b>'
        f"<em>{bar.words}</em></div>"
        for bar in bars
    )
    return f'{_style(colors)}<div class="scale-bars">{drawn}</div>'


def _style(colors: theme.Palette) -> str:
    return f"""<style>
.to-scale {{ display: flex; flex-wrap: wrap; gap: 1rem 3rem; color: {colors.text}; }}
.to-scale h4 {{ margin: 0; padding: 0 0 0.4rem; font-size: 1.05rem; color: {colors.muted}; }}
.to-scale section > div {{ display: flex; flex-wrap: wrap; gap: 1rem 1.5rem; align-items: flex-end; }}
.to-scale figure {{ margin: 0; max-width: 15rem; padding: 0.2rem; }}
.to-scale i {{ display: block; min-width: 1px; min-height: 1px;
  background: color-mix(in srgb, var(--tensor) 45%, transparent); border: 1px solid var(--tensor);
  box-sizing: border-box; }}
.to-scale i.hbm {{ background: {colors.surface}; border: 1px solid {colors.muted}; position: relative; }}
.to-scale u {{ position: absolute; left: 0; bottom: 0; min-width: 2px; min-height: 2px;
  background: {colors.standard}; }}
.to-scale figcaption {{ padding-top: 0.25rem; min-height: 2.9rem; font-size: 1rem; line-height: 1.3; }}
.scale-bars {{ display: grid; gap: 0.35rem; color: {colors.text}; }}
.scale-bars > div {{ display: grid; grid-template-columns: 13rem 1fr 8rem; gap: 0.7rem; align-items: center;
  font-size: 1rem; padding: 0.1rem 0.2rem; }}
.scale-bars b {{ display: block; }}
.scale-bars i {{ display: block; height: 1.3rem; min-width: 2px; background: var(--tensor); }}
.scale-bars em {{ font-style: normal; font-variant-numeric: tabular-nums; }}
@media (max-width: 640px) {{
  .scale-bars > div {{ grid-template-columns: 1fr auto; }}
  .scale-bars b {{ grid-column: 1 / -1; grid-row: 2; }}
}}
</style>"""
