"""Recorded speed of attention over several GPUs, by how the sequence is shared out."""

import plotly.graph_objects as go

from kernels.measure.ranks import ONE_GPU, RanksTime, share_of_ideal
from viz.player.ranks import LABELS
from viz.shared import theme
from viz.shared.figures.charts import LEGEND_BELOW, chart, line, log_ticks
from viz.shared.formats import format_length, format_ms

LOOKS = {
    ("ring", "zigzag"): ("query", "solid"),
    ("ring", "striped"): ("query", "dashdot"),
    ("ring", "contiguous"): ("query", "dash"),
    ("all_gather", "zigzag"): ("output", "solid"),
    ("all_to_all", "zigzag"): ("state", "solid"),
    ("hybrid", "zigzag"): ("value", "solid"),
    ("torch all-gather", ""): ("key", "solid"),
    ("torch all-to-all", ""): ("key", "dash"),
}
"""Palette entry and dash of each method and layout, in every chart of the page."""


def ideal_figure(times: tuple[RanksTime, ...], direction: str, colors: theme.Palette) -> go.Figure:
    """Rate per GPU, as a share of that of one alone, over the tokens of all ranks."""
    lines = []
    for (method, layout), (color, dash) in LOOKS.items():
        own = [
            (time.problem.q_len, share, time.timing.median_ms)
            for time in times
            if (time.method, time.layout, time.direction) == (method, layout, direction)
            and time.timing
            and (share := share_of_ideal(time, times))
            and time.problem.kv_heads < time.problem.q_heads
        ]
        if not own:
            continue
        name = LABELS.get(method, f"{method.removeprefix('torch ').capitalize()}, torch's context_parallel")
        name += f", {layout}" if layout and method != "all_to_all" else ""
        said = [f"{name}<br>{x:,} tokens: {share:.0%} of one's rate, {format_ms(ms)}" for x, share, ms in own]
        xs, ys = [x for x, _, _ in own], [share for _, share, _ in own]
        shown = {"name": name, "text": said, "hoverinfo": "text", "mode": "lines+markers"}
        lines.append(line(xs, ys, getattr(colors, color), 3, dash, **shown))
    lengths = sorted({time.problem.q_len for time in times if time.method != ONE_GPU})
    return chart(
        lines,
        colors,
        380,
        "rate per GPU beside that of one alone, recorded",
        log_ticks(lengths, [format_length(x) for x in lengths], minor_ticks=""),
        {"tickformat": ".0%", "range": [0, 1.15]},
        legend=LEGEND_BELOW,
        hovermode="closest",
    )
