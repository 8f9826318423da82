"""Four meanings of an attention call's bytes as four bars that are never added: modelled, requested, compulsory, DRAM."""

from __future__ import annotations

import plotly.graph_objects as go

from kernels.measure.four_numbers import Number
from viz.shared import theme

PATTERNS = {"modelled": "/", "requested": "", "compulsory": ".", "DRAM": ""}
LABELS = {
    "modelled": "modelled",
    "requested": "requested<br>(counted)",
    "compulsory": "compulsory<br>(modelled)",
    "DRAM": "DRAM<br>(counters)",
}


def four_numbers_figure(
    title: str, numbers: tuple[Number, ...], color: str, colors: theme.Palette
) -> go.Figure:
    """A bar each, cut into the kernels or operations it is the sum of. An absent number says why."""
    figure = go.Figure()
    for number in numbers:
        for index, part in enumerate(number.parts):
            figure.add_bar(
                y=[LABELS[number.kind]],
                x=[part.bytes],
                orientation="h",
                marker={
                    "color": color if number.kind != "compulsory" else colors.muted,
                    "opacity": 1.0 if index % 2 == 0 else 0.62,
                    "pattern": {
                        "shape": PATTERNS[number.kind],
                        "fillmode": "overlay",
                        "fgcolor": colors.background,
                        "size": 6,
                    },
                    "line": {"color": colors.background, "width": 1.5},
                },
                hovertext=f"{part.name}: {theme.format_bytes(part.bytes)}<br>{number.kind}: {number.source}",
                hoverinfo="text",
            )
    theme.style_figure(figure, colors, height=60 + 62 * len(numbers))
    for number in numbers:
        words = theme.format_bytes(number.bytes) if number.bytes is not None else number.missing
        figure.add_annotation(
            x=number.bytes or 0, y=LABELS[number.kind], text=words, showarrow=False, xanchor="left", xshift=8,
            font={"size": 15 if number.bytes is not None else 13, "color": colors.text if number.bytes is not None else colors.muted},
        )  # fmt: skip
    widest = max(number.bytes or 0 for number in numbers)
    figure.update_xaxes(range=[0, 1.32 * widest], showticklabels=False, showgrid=False)
    figure.update_yaxes(autorange="reversed", tickfont_size=14, showgrid=False)
    figure.update_layout(
        barmode="stack",
        bargap=0.28,
        showlegend=False,
        title={"text": title, "font_size": 15, "y": 0.98},
        margin_t=34,
    )
    return figure
