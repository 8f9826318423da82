"""The errors of O in units in the last place. Pure: data -> figure."""

from __future__ import annotations

import plotly.graph_objects as go

from kernels.check.report.report import ULP_LABELS
from kernels.check.result import TensorCheck
from viz.shared import theme
from viz.shared.figures.charts import chart


def ulps_figure(tensor: TensorCheck, colors: theme.Palette) -> go.Figure:
    """Share of the elements by how many units in the last place they are off."""
    kinds = (
        ("this kernel", colors.flash, tensor.ulps),
        ("low-precision reference", colors.standard, tensor.naive_ulps),
    )
    bars = [
        go.Bar(
            x=ULP_LABELS,
            y=[count / max(sum(counts), 1) for count in counts],
            customdata=counts,
            name=name,
            marker_color=color,
            hovertemplate="%{y:.2%} of the elements (%{customdata:,})<extra>" + name + "</extra>",
        )
        for name, color, counts in kinds
    ]
    x = {"title_text": "error in units in the last place", "type": "category"}
    y = {"tickformat": ".0%", "rangemode": "tozero"}
    return chart(bars, colors, 310, "", x, y, barmode="group", bargap=0.25)
