"""Memories and matrices to scale: areas as bytes, bars as bytes per second and as seconds. As HTML."""

import math

from kernels.algorithms.standard.traffic import matrix_bytes
from kernels.device.gpus import Gpu
from kernels.problem import AttentionProblem
from viz.shared import theme
from viz.shared.formats import format_bytes, format_kib
from viz.shared.glossary import symbol_class

HBM_SIDE = 230.0
"""Side of the square that stands for HBM, in px; all others follow from it."""
ZOOM_SIDE = 210.0
"""Side of the largest square of the magnified part."""

Bar = tuple[str, float, str, str, str]
"""Label, value, words behind it, palette entry, and the symbol that it lights ("" for none)."""


def to_scale_html(problem: AttentionProblem, gpu: Gpu, colors: theme.Palette) -> str:
    """HBM with S in it at one scale, and S beside Q and the SRAM of an SM, magnified."""
    scores, matrix = matrix_bytes(problem), problem.q_len * problem.head_dim * problem.itemsize
    sram = gpu.shared_bytes_per_sm

    def side(size: float) -> float:
        return HBM_SIDE * math.sqrt(size / gpu.hbm_bytes)

    zoom = ZOOM_SIDE / side(max(scores, sram))
    near = "".join(
        f'<figure class="{symbol_class(symbol)}"><i style="width:{zoom * side(size):.2f}px;'
        f'height:{zoom * side(size):.2f}px;--tensor:{color}"></i><figcaption><b>{name}</b> '
        f"{words}</figcaption></figure>"
        for size, symbol, color, name, words in (
            (scores, "S", colors.standard, "S", f"{format_bytes(scores)}, the scores of one head"),
            (matrix, "Q", colors.query, "Q", f"{format_bytes(matrix)}; K, V and O are as large"),
            (sram, "SRAM", colors.good, "SRAM of one SM", format_kib(sram)),
        )
    )
    return (
        '<div class="to-scale"><section><h4>At one scale</h4>'
        f'<figure class="{symbol_class("HBM")}">'
        f'<i class="hbm" style="width:{HBM_SIDE}px;height:{HBM_SIDE}px"><u class="{symbol_class("S")}" '
        f'style="width:{side(scores):.2f}px;height:{side(scores):.2f}px"></u></i>'
        f"<figcaption><b>HBM</b> {format_bytes(gpu.hbm_bytes)}. The small spot in its corner is S of one "
        f"head.</figcaption></figure></section><section><h4>That spot, enlarged: {zoom:,.0f} times as wide"
        f"</h4><div>{near}</div></section></div>"
    )


def bars_html(colors: theme.Palette, *bars: Bar) -> str:
    """Horizontal bars whose lengths are to each other as their values."""
    longest = max(value for _, value, *_ in bars)
    drawn = "".join(
        f'<div class="{symbol_class(symbol)}"><span>{label}</span><b><i style="width:'
        f'{100 * value / longest:.2f}%;--tensor:{getattr(colors, color)}"></i></b><em>{words}</em></div>'
        for label, value, words, color, symbol in bars
    )
    return f'<div class="scale-bars">{drawn}</div>'
