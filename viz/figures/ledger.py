"""The traffic ledger: bytes by tensor, of the kernel (counted) beside standard attention (modelled)."""

from __future__ import annotations

import plotly.graph_objects as go

from kernels.trace import Trace
from kernels.traffic import standard_ledger
from viz import theme

ORDER = ("Q", "K", "V", "S", "P", "O", "lse")


def kernel_ledger(trace: Trace) -> dict[str, int]:
    """Requested bytes of a run by tensor, reads and writes together (counted)."""
    totals = (trace.tensor_bytes_read + trace.tensor_bytes_written).sum(axis=0)
    return dict(zip(trace.tensors, totals.tolist(), strict=True))


def ledger_figure(trace: Trace, colors: theme.Palette) -> go.Figure:
    """Two bars a tensor. A tensor that an algorithm never moves has no bar: S and P of the kernel, lse of the standard one."""
    ours, standard = kernel_ledger(trace), standard_ledger(trace.problem)
    names = [name for name in ORDER if name in ours or name in standard]
    figure = go.Figure()
    for label, ledger, color, pattern in (
        ("standard attention, modelled", standard, colors.standard, "/"),
        ("this kernel, counted", ours, colors.flash, ""),
    ):
        values = [ledger.get(name, 0) for name in names]
        figure.add_trace(
            go.Bar(
                name=f"{label}: {theme.format_bytes(sum(values))}",
                y=names,
                x=values,
                orientation="h",
                marker={"color": color, "pattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": colors.background, "size": 6}},
                text=[theme.format_bytes(value) if value else "none" for value in values],
                textposition="outside",
                textfont={"size": 12, "color": colors.text},
                constraintext="none",
                cliponaxis=False,
                hovertemplate="%{y}: %{text}<extra></extra>",
            )
        )
    theme.style_figure(figure, colors, height=110 + 44 * len(names))
    figure.update_xaxes(showticklabels=False, showgrid=False, range=[0, 1.18 * max(*ours.values(), *standard.values())])
    figure.update_yaxes(autorange="reversed", tickfont_size=15)
    figure.update_layout(bargap=0.2, legend={"traceorder": "reversed", "orientation": "v"})
    return figure
