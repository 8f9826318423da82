"""What the charts lack: peers that were chosen and that nobody measured for the choice."""

from __future__ import annotations

from kernels.measure.peers import PEERS
from kernels.measure.roofline import RoofPoint
from kernels.measure.series import PeerCurve
from viz.measure.controls import ONE_POINT, Choice
from viz.measure.sources import HERE, Source, origin_of
from viz.shared.figures.sweep import peer_label
from viz.shared.formats import format_length, plain


def gap_words(
    sources: list[Source], curves: list[PeerCurve], choice: Choice, metric: str, direction: str
) -> str:
    """Which chosen peers each source did not measure in a direction, or not at all its points.

    Example: "Not measured (recorded): SDPA math; FlexAttention at 512, 2k." Empty if nothing is missing.
    Refused points are results. A peer that does not run on the source's device is not expected.
    """
    sentences = []
    for source in sources:
        own = [curve for curve in curves if curve.source == source.name]
        found = {curve.peer: curve for curve in own if curve.direction == direction}
        if found:
            missing = [peer_label(peer) for peer in expected_peers(source, choice) if peer not in found]
            missing += _incomplete(found, _measured_at(source, choice, direction), metric)
            what = "No call time" if metric == "call" else "Not measured"
            if missing:
                sentences.append(f"{what} ({source.name}): {'; '.join(missing)}.")
        elif own:
            sentences.append(f"Not measured ({source.name}): anything {direction}.")
    return "  \n".join(map(plain, sentences))


def _measured_at(source: Source, choice: Choice, direction: str) -> list[int]:
    """Where a source measured any peer, also one that was not chosen."""
    curves = [curve for curve in source.curves(choice.view) if curve.direction == direction]
    xs = {point.x for curve in curves for point in curve.points}
    return sorted(xs & {choice.view.length} if choice.axis == ONE_POINT else xs)


def _incomplete(curves: dict[str, PeerCurve], xs: list[int], metric: str) -> list[str]:
    """The peers that lack some of these points, with the points, or that lack all."""
    measured = "call" if metric == "call" else "time"
    parts = []
    for peer, curve in curves.items():
        answered = curve.values(measured).keys() | {p.x for p in curve.points if p.result.refused}
        missing = [x for x in xs if x not in answered]
        if missing == xs:
            parts.append(peer_label(peer))
        elif missing:
            parts.append(f"{peer_label(peer)} at {', '.join(map(format_length, missing))}")
    return parts


def without_call_words(sources: list[Source], curves: list[PeerCurve]) -> str:
    """Which sources are of a CPU, whose calls are in the time chart; "" if none is."""
    drawn = {curve.source for curve in curves}
    names = [
        source.name
        for source in sources
        if source.name in drawn and source.device is not None and source.device.backend != "cuda"
    ]
    if not names:
        return ""
    have = "has" if len(names) == 1 else "have"
    return (
        f"**{'** and **'.join(names)}** {have} no call time: that is taken on a GPU. On a CPU the time chart "
        "shows whole calls: choose “time” above to see them."
    )


def unmarked_words(source: Source, points: list[RoofPoint], choice: Choice) -> str:
    """Which chosen peers have no mark under the roof of a source; empty if all have one."""
    marked = {(point.peer, point.direction) for point in points}
    many = len(choice.directions) > 1
    missing = [
        peer_label(peer) + (f" {direction}" if many else "")
        for direction in choice.directions
        for peer in expected_peers(source, choice)
        if (peer, direction) not in marked
    ]
    if not missing:
        return ""
    return plain(f"Without a mark, because not timed on the problem shown: {'; '.join(missing)}.")


def device_words(sources: list[Source], curves: list[PeerCurve]) -> str:
    """Of which device the curves of each source are, if its document names several; else empty."""
    sentences = []
    for source in sources:
        points = [point for curve in curves if curve.source == source.name for point in curve.points]
        if points and len({device.name for device in source.document.devices}) > 1:
            device = origin_of(points[0], source.document).device
            sentences.append(f"The numbers of {source.name} are those of {device.name}.")
    return "  \n".join(map(plain, sentences))


def expected_peers(source: Source, choice: Choice) -> list[str]:
    """The chosen peers that run on the source's device."""
    device = source.device
    if device is None:
        return []
    if source.name == HERE:  # what is not installed is not expected either
        return [peer for peer in choice.peers if PEERS[peer].runs_on(device.backend)]
    return [peer for peer in choice.peers if device.backend in PEERS[peer].backends]
