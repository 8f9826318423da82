"""More GPUs than were recorded: what each method would cost a rank, modelled, and held against what was."""

import contextlib
import functools
from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from kernels.device.gpus import GPUS
from kernels.measure import worlds as model
from kernels.recordings import recorded_document, recorded_ranks
from viz.ranks.figures import LOOKS
from viz.shared import theme
from viz.shared.figures import charts
from viz.shared.formats import format_ms
from viz.shared.layout import colors, plot
from viz.shared.words import Words

GPU_COUNTS = tuple(2**power for power in range(1, 13))
TOKENS = {"512k": 1 << 19, "1M": 1 << 20, "4M": 4 << 20, "10M": 10 << 20}
RING, HYBRID = "ring, zigzag or striped", "all-to-all in a node, ring between"
WAYS = {
    RING: ("ring", "zigzag", "circle"),
    "ring, contiguous": ("ring", "contiguous", "square"),
    "all-gather": ("all_gather", "zigzag", "diamond"),
    "all-to-all": ("all_to_all", "zigzag", "x"),
    HYBRID: ("hybrid", "zigzag", "star"),
}
"""Words -> method, layout and mark."""
WORDS = Words(__file__)
Costs = Mapping[str, Mapping[int, model.Cost]]
"""Words of a way -> number of GPUs that it can have -> what it costs each."""


@functools.cache
def recorded_machine() -> model.Machine:
    return model.Machine.of(recorded_document("ranks").ranks, recorded_ranks())


def worlds_panel() -> None:
    """Controls, the chart, the table of one number of GPUs, and modelled beside measured."""
    st.subheader("More GPUs than were recorded: modelled", anchor=False)
    machine = recorded_machine()
    links = {link.name: link for link in (*model.INFINIBAND, machine.nvlink)}

    def choice(label: str, options: Any, first: int, width: int) -> Any:
        key = f"worlds_{label.split()[0].lower()}"
        return st.selectbox(label, options, first, key=key, bind="query-params", width=width)

    with st.container(horizontal=True, vertical_alignment="bottom"):
        ranks = st.select_slider("GPUs", GPU_COUNTS, 64, key="worlds_gpus", bind="query-params", width=240)
        tokens = TOKENS[choice("Tokens", TOKENS, 1, 110)]
        direction = choice("Direction", ("forward", "backward"), 0, 140)
        between = links[choice("Link between nodes of 8 GPUs", links, 0, 220)]
    worlds: dict[str, dict[int, model.World]] = {name: {} for name in WAYS}
    for name, (method, layout, *_) in WAYS.items():
        for count in GPU_COUNTS:
            with contextlib.suppress(ValueError):  # all-to-all has at most 8 GPUs, the hybrid more
                given = (count, tokens, direction, method, layout, between)
                worlds[name][count] = model.World(*given)
    costs = {name: {n: model.cost(each, machine) for n, each in of.items()} for name, of in worlds.items()}
    ideal = {count: each.ideal_s(machine) for count, each in worlds[RING].items()}
    plot(worlds_figure(costs, ideal, ranks, colors()), key="worlds")
    rows = []
    for name, of in costs.items():
        if each := of.get(ranks):
            size = worlds[name][ranks].input_bytes + each.extra_bytes
            much = ", **too much**" if size > GPUS["H200"].hbm_bytes else ""
            waits = format_ms(1e3 * each.exposed_s) if each.exposed_s else "0"
            row = {"name": name, "cost": each, "size": size, "much": much, "waits": waits}
            rows.append(row | {"share": ideal[ranks] / each.seconds})
    st.markdown(WORDS.rows("worlds", rows))
    st.markdown(fastest_words(costs))
    said = {"results": model.MOST_PARTS + 1, "machine": machine, "nvlink": machine.nvlink.bytes_per_s / 1e9}
    said |= {"datasheet": model.NVLINK_BYTES_PER_S / 1e9, "between": between}
    said |= {"rate": between.bytes_per_s / 1e9, "latency": 1e6 * between.latency_s}
    st.caption(WORDS("model", **said))
    with st.expander("Modelled beside measured"):
        st.markdown(beside_measured(machine))


def worlds_figure(costs: Costs, ideal: Mapping[int, float], ranks: int, colors: theme.Palette) -> go.Figure:
    """Time over the number of GPUs: a line per way, dotted the part of it that waits for transfers."""
    lines = [charts.line([*ideal], [*ideal.values()], colors.muted, dash="dash", name="at one GPU's rate")]
    for name, of in costs.items():
        method, layout, mark = WAYS[name]
        entry, dash = LOOKS[method, layout]
        waits = [each.exposed_s or None for each in of.values()]
        look: dict[str, Any] = {"name": name, "legendgroup": name, "hovertemplate": "%{x} GPUs: %{y:.3s}s"}
        color, seconds = getattr(colors, entry), [each.seconds for each in of.values()]
        marked = look | {"mode": "lines+markers", "marker_symbol": mark}
        lines.append(charts.line([*of], seconds, color, dash=dash, **marked))
        lines.append(charts.line([*of], waits, color, dash="dot", showlegend=False, **look))
    x = charts.log_ticks(GPU_COUNTS, [f"{count:,}" for count in GPU_COUNTS], title="GPUs")
    title = "seconds of a call, modelled; dotted: waiting"
    figure = charts.chart(lines, colors, 460, title, x, charts.POWERS, legend=charts.LEGEND_BELOW)
    return figure.add_vline(x=ranks, line={"color": colors.now, "width": 1})


def fastest_words(costs: Costs) -> str:
    """Where the hybrid wins."""
    fastest = {n: min((of[n].seconds, name) for name, of in costs.items() if n in of)[1] for n in GPU_COUNTS}
    wins = [f"{n:,}" for n, name in fastest.items() if name == HYBRID]
    return f"{HYBRID.capitalize()}, is the fastest way from {wins[0]} to {wins[-1]} GPUs." if wins else ""


def beside_measured(machine: model.Machine) -> str:
    """Each recorded time and memory of ours, and how far the model is from it."""
    rows = []
    for time in recorded_document("ranks").ranks:
        if time.method in model.METHODS and time.timing and time.peak_extra_bytes:
            p, ms, memory = time.problem, time.timing.median_ms, time.peak_extra_bytes
            way = (time.ranks, p.q_len, time.direction, time.method, time.layout, model.INFINIBAND[0])
            cost = model.cost(model.World(*way, p.q_heads, p.kv_heads), machine)
            about = f"{p.q_len:,} tokens, {p.q_heads} over {p.kv_heads} heads, {', '.join(way[2:5])}"
            row = {"about": about, "ms": ms, "off": 1e3 * cost.seconds / ms - 1}
            rows.append(row | {"memory": memory, "more": cost.extra_bytes / memory - 1})
    return WORDS.rows("beside", rows)
