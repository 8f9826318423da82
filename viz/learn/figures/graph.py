"""A graph as SVG: boxes with a name and small print, and arrows with labels. Data to HTML."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from viz.shared import theme


@dataclass(frozen=True)
class Node:
    """A box, by the place of its centre."""

    name: str
    x: float
    y: float
    small: str = ""
    """Small print below the name."""
    color: str = "text"
    """Palette entry of its frame."""
    dashed: bool = False


@dataclass(frozen=True)
class Arrow:
    """An arrow between two nodes, by their names, with a label above its middle."""

    start: str
    end: str
    label: str = ""
    color: str = "muted"
    dashed: bool = False


HALF_WIDTH, HALF_HEIGHT = 48, 24


def graph_html(
    nodes: Sequence[Node],
    arrows: Sequence[Arrow],
    size: tuple[int, int],
    colors: theme.Palette,
    alt: str,
) -> str:
    """`size` is (width, height) in the units of the nodes; `alt` says in words what is drawn.

    An image, since pages drop SVG that is part of their HTML. A narrow screen scrolls sideways.
    """
    image = base64.b64encode(graph_svg(nodes, arrows, size, colors).encode()).decode()
    width = size[0]
    return (
        f'<div style="overflow-x:auto"><img alt="{alt}" src="data:image/svg+xml;base64,{image}" '
        f'style="width:100%;min-width:{0.7 * width:.0f}px;max-width:{1.15 * width:.0f}px"></div>'
    )


def graph_svg(
    nodes: Sequence[Node], arrows: Sequence[Arrow], size: tuple[int, int], colors: theme.Palette
) -> str:
    """The drawing."""
    places = {node.name: node for node in nodes}
    width, height = size
    heads = sorted({arrow.color for arrow in arrows})
    drawn = "".join(_arrow(arrow, places, colors) for arrow in arrows)
    boxes = "".join(_node(node, colors) for node in nodes)
    markers = "".join(_marker(color, colors) for color in heads)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="{theme.FONT}"><defs>{markers}</defs>{drawn}{boxes}</svg>'
    )


def _marker(color: str, colors: theme.Palette) -> str:
    return (
        f'<marker id="head-{color}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0,0 L10,5 L0,10 z" fill="{getattr(colors, color)}"/></marker>'
    )


def _node(node: Node, colors: theme.Palette) -> str:
    color = getattr(colors, node.color)
    dash = ' stroke-dasharray="6 4"' if node.dashed else ""
    name_y = node.y - 3 if node.small else node.y + 6
    small = (
        f'<text x="{node.x}" y="{node.y + 16}" text-anchor="middle" font-size="13" '
        f'fill="{colors.muted}">{node.small}</text>'
        if node.small
        else ""
    )
    return (
        f'<rect x="{node.x - HALF_WIDTH}" y="{node.y - HALF_HEIGHT}" width="{2 * HALF_WIDTH}" '
        f'height="{2 * HALF_HEIGHT}" rx="8" fill="{colors.surface}" stroke="{color}" stroke-width="2"{dash}/>'
        f'<text x="{node.x}" y="{name_y}" text-anchor="middle" font-size="18" font-weight="600" '
        f'fill="{color}">{node.name}</text>{small}'
    )


def _arrow(arrow: Arrow, places: dict[str, Node], colors: theme.Palette) -> str:
    start, end = places[arrow.start], places[arrow.end]
    side = HALF_WIDTH if end.x > start.x else -HALF_WIDTH
    x1, x2 = start.x + side, end.x - side
    dash = ' stroke-dasharray="6 4"' if arrow.dashed else ""
    color = getattr(colors, arrow.color)
    label = (
        f'<text x="{(x1 + x2) / 2}" y="{(start.y + end.y) / 2 - 7}" text-anchor="middle" font-size="14" '
        f'fill="{colors.text}" stroke="{colors.background}" stroke-width="4" paint-order="stroke">'
        f"{arrow.label}</text>"
    )
    return (
        f'<line x1="{x1}" y1="{start.y}" x2="{x2}" y2="{end.y}" stroke="{color}" stroke-width="2.5"{dash} '
        f'marker-end="url(#head-{arrow.color})"/>{label}'
    )
