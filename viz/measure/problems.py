"""Of which problems the charts are, and what of them the sidebar decides."""

from __future__ import annotations

from kernels.measure.series import PeerCurve
from viz.measure.controls import ONE_POINT, Choice, shape_words
from viz.measure.sources import HERE
from viz.shared.formats import format_length


def fixed_words(curves: list[PeerCurve], choice: Choice) -> str:
    """What is held fixed, source by source."""
    first: dict[str, PeerCurve] = {}
    for curve in curves:
        first.setdefault(curve.source, curve)
    return "  \n".join(f"{source}: {_fixed(curve, choice)}" for source, curve in first.items())


def which_problems(curves: list[PeerCurve], choice: Choice, dtype: str | None) -> str:
    """The problems of each source that was not measured here, and those that "Measure here" measures.

    `dtype` is that of a measurement here, None if none can be made. "" if all curves were measured here.
    """
    axis = choice.view.axis
    sources = dict.fromkeys(curve.source for curve in curves if curve.source != HERE)
    if not sources:
        return ""
    lines = []
    for source in sources:
        own = [curve for curve in curves if curve.source == source]
        xs = [point.x for curve in own for point in curve.points]
        lines.append(f"**{source}** shows {axis} {_range_words(xs, axis)}, {_fixed(own[0], choice)}.")
    fields = [name for name in ("head_dim", "length") if name != axis or choice.axis == ONE_POINT]
    picked = ", ".join([*fields, "dtype", "mask"])
    words = (
        f"{' '.join(lines)} The sidebar chooses what of it is shown by {picked} and peers, and by batch and "
        "heads if several were recorded. The range stays."
    )
    if dtype is None:
        return words
    shape = shape_words(choice.problems(dtype)[0], axis, choice.view.tokens > 0)
    here = f"{axis} {_range_words(list(choice.points), axis)}, {shape}"
    but = "" if dtype == choice.view.dtype else f", but in {dtype}, as always on a CPU"
    return f"{words} **“Measure here”** measures what the sidebar says{but}: {here}."


def _fixed(curve: PeerCurve, choice: Choice) -> str:
    problems = [point.problem for point in curve.points]
    varied = len({(problem.batch, problem.q_heads) for problem in problems}) > 1
    tokens = varied and choice.view.axis != "batch"
    return shape_words(problems[0], choice.view.axis, tokens)


def _range_words(xs: list[int], axis: str) -> str:
    """ "512 to 16k", or the one value that there is."""
    words = [format_length(x) if axis == "length" else str(x) for x in (min(xs), max(xs))]
    return words[0] if words[0] == words[1] else " to ".join(words)
