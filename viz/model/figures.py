"""Memory against length: what standard attention keeps, what FlashAttention keeps, and the KV cache."""

import math

import plotly.graph_objects as go

from kernels.device.gpus import Gpu
from kernels.measure.nearest import NAIVE
from kernels.models.cost import OURS, layer_memory
from kernels.models.model import Model
from viz.shared import theme
from viz.shared.figures.charts import chart, line, log_ticks, note
from viz.shared.figures.sweep import value_ticks
from viz.shared.formats import format_bytes, format_length

LENGTHS = tuple(1 << power for power in range(10, 18))


def memory_figure(model: Model, length: int, batch: int, gpu: Gpu, colors: theme.Palette) -> go.Figure:
    """Four lines over the length on log axes, the memory of a GPU, and the chosen length."""
    xs, shared = sorted({*LENGTHS, length}), model.kv_heads < model.q_heads
    curves = [
        ("S and P of a layer, standard", colors.standard, "solid", _of_layer(model, xs, batch, NAIVE)),
        ("KV cache of all layers", colors.key, "solid", [model.cache_bytes(x, batch) for x in xs]),
        ("output of a layer, FlashAttention", colors.flash, "solid", _of_layer(model, xs, batch, OURS)),
    ]
    if shared:
        without = [model.cache_bytes(x, batch, model.q_heads) for x in xs]
        curves.insert(1, (f"KV cache with {model.q_heads} key heads", colors.key, "dot", without))
    lines = [
        line(
            *(xs, ys, color, 3, dash),
            name=name,
            text=[f"{name}<br>{x:,} tokens: {format_bytes(y)}" for x, y in zip(xs, ys, strict=True)],
            hoverinfo="text",
        )
        for name, color, dash, ys in curves
    ]
    values = [float(y) for *_, ys in curves for y in ys]
    shown = LENGTHS[::2] if length in LENGTHS else sorted({*LENGTHS[::2], length})
    figure = chart(
        lines,
        colors,
        424,
        "memory against tokens, modelled",
        log_ticks(shown, [format_length(x) for x in shown], minor_ticks=""),
        log_ticks(*zip(*value_ticks(values, "memory"), strict=True)),
        margin_t=112,
        hovermode="closest",
    )
    figure.add_hline(y=gpu.hbm_bytes, line={"color": colors.muted, "dash": "dash", "width": 1.5})
    words = f"memory of an {gpu.name}: {format_bytes(gpu.hbm_bytes)}"
    place = {"y": math.log10(gpu.hbm_bytes), "xanchor": "left", "yanchor": "bottom"}
    note(figure, words, math.log10(xs[0]), **place, font={"color": colors.muted, "size": 13})
    figure.add_vline(x=length, line={"color": colors.text, "dash": "dot", "width": 1.5})
    return figure


def _of_layer(model: Model, lengths: list[int], batch: int, peer: str) -> list[int]:
    return [layer_memory(model, length, batch, peer) for length in lengths]
