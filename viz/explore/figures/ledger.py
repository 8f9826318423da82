"""The traffic ledger: bytes by tensor, of one run beside another run or beside standard attention."""

from dataclasses import dataclass

import plotly.graph_objects as go

from kernels.algorithms import algorithm_of
from kernels.algorithms.standard.traffic import requested_ledger
from kernels.trace import Trace
from kernels.traffic.whole import whole_traffic
from viz.shared import theme
from viz.shared.figures.charts import OUTSIDE, chart, hatched, lengths, rows
from viz.shared.formats import format_bytes

ORDER = (
    *("Q", "K", "V", "S", "P", "dP", "dS", "O", "partial O", "dO"),
    *("m", "l", "lse", "partial lse", "D", "dQ", "dK", "dV"),
)


@dataclass(frozen=True)
class Ledger:
    """Bytes by tensor, reads and writes together, and what to call them ("FlashAttention-2, counted")."""

    label: str
    bytes: dict[str, int]
    modelled: bool = False


def ledgers_of(trace: Trace, other: Trace | None = None) -> tuple[Ledger, Ledger]:
    """The run's ledger, and the other run's; without one, that of the standard algorithm of its direction."""
    if other is not None:
        return _own_ledger(trace), _own_ledger(other, "B: ")
    direction = algorithm_of(trace).direction
    label = f"standard {'attention' if direction == 'forward' else direction}, modelled"
    return _own_ledger(trace), Ledger(label, requested_ledger(trace.problem, direction), modelled=True)


def _own_ledger(trace: Trace, mark: str = "") -> Ledger:
    """The ledger of a run, under its label; of a sampled one, by formula."""
    traffic, algorithm = whole_traffic(trace, algorithm_of(trace)), algorithm_of(trace)
    how = "modelled" if traffic.modelled else "counted"
    return Ledger(f"{mark}{algorithm.label}, {how}", traffic.bytes, traffic.modelled)


def ledger_figure(first: Ledger, second: Ledger, colors: theme.Palette) -> go.Figure:
    """Two bars per tensor that either of them moves. A tensor that an algorithm never moves has no bar."""
    moved = first.bytes | second.bytes
    names = sorted(moved, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    bars = [_bars(second, names, colors.standard, colors), _bars(first, names, colors.flash, colors)]
    x = lengths(max(*first.bytes.values(), *second.bytes.values(), 1), 1.18)
    y = {"autorange": "reversed", "tickfont_size": 15}
    legend = {"traceorder": "reversed", "orientation": "v"}
    return chart(bars, colors, 110 + 44 * len(names), "", x, y, bargap=0.2, legend=legend)


def _bars(ledger: Ledger, names: list[str], color: str, colors: theme.Palette) -> go.Bar:
    values = [ledger.bytes.get(name, 0) for name in names]
    return rows(
        names,
        values,
        name=f"{ledger.label}: {format_bytes(sum(values))}",
        marker=hatched(color, "/" if ledger.modelled else "", colors),
        text=[format_bytes(value) if value else "none" for value in values],
        **OUTSIDE,
        textfont_size=12,
        constraintext="none",
        hovertemplate="%{y}: %{text}<extra></extra>",
    )
