"""What the page says of a choice: which problems each source shows, and which chosen peers it lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kernels.measure.peers import PEERS
from kernels.measure.series import PeerCurve
from viz.measure.controls import Choice, shape_words
from viz.measure.sources import Source
from viz.shared.figures.sweep import peer_label
from viz.shared.formats import format_length, plain


def problem_lines(curves: list[PeerCurve], choice: Choice, dtype: str | None) -> str:
    """A line for the problems of each source, and one for those that "Measure here" measures.

    `dtype` is that of a measurement here, None if none can be made.
    """
    view, lines = choice.view, []
    for source in dict.fromkeys(curve.source for curve in curves):
        points = [point for curve in curves if curve.source == source for point in curve.points]
        varied = len({(point.problem.batch, point.problem.q_heads) for point in points}) > 1
        shape = shape_words(points[0].problem, view.axis, tokens=varied and view.axis != "batch")
        span = _span(view.axis, [point.x for point in points])
        lines.append(f"**{source}** ({plain(points[0].measurement.device.name)}): {span}, {shape}.")
    if dtype is not None:
        shape = shape_words(choice.problems(dtype)[0], view.axis, view.tokens > 0)
        lines.append(f"**Measure here** measures {_span(view.axis, choice.points)}, {shape}.")
    return "  \n".join(lines)


def _span(axis: str, xs: Iterable[int]) -> str:
    """ "length 512 to 16k", or the one value that there is."""
    ends = [format_length(x) if axis == "length" else str(x) for x in sorted(set(xs))]
    return f"{axis} {' to '.join(dict.fromkeys((ends[0], ends[-1])))}"


def missing_peers(source: Source, drawn: Collection[tuple[str, str]], choice: Choice) -> str:
    """The chosen peers that the source's device could run, without the (peer, direction) that are drawn."""
    device, many = source.device, len(choice.directions) > 1
    return ", ".join(
        peer_label(peer) + (f" {direction}" if many else "")
        for direction in choice.directions
        for peer in choice.peers
        if device and device.backend in PEERS[peer].backends and (peer, direction) not in drawn
    )
