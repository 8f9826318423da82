"""A recorded sweep of the Measure page as a scene: which one, and what the stage draws, as plain values."""

import math
from collections.abc import Collection, Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from kernels.measure.measurement import DIRECTIONS, Measurement
from kernels.measure.peers import PEERS
from kernels.measure.series import AXES, PeerCurve, SweepView, peer_curves
from kernels.measure.sweep import TOKENS, WIDTH
from kernels.problem import DTYPES, AttentionProblem
from kernels.problem.attention_problem import MASKS
from kernels.recordings import recorded_document
from viz.shared.figures import sweep
from viz.shared.formats import format_count, format_length, format_ratio
from viz.shared.provenance import library_versions
from viz.shared.theme import PEER_COLORS

METRICS = ("time", "tflops", "memory", "speedup")
SHOWN = {"sdpa_flash": "PyTorch's FlashAttention-2", "ours": "our FlashAttention"}
TITLES = sweep.TITLES | {"memory": "extra memory for one sequence"}
THAN = {"time": " faster", "memory": " less"}  # what its factor says of a curve


def among(options: Collection[str]) -> Meta:
    """For the type of a text that is one of some words."""
    return Meta(pattern=rf"\A({'|'.join(options)})\Z")


class InvalidChart(ValueError):
    """A chart that was not recorded, or without a curve; with what was recorded."""


class Chart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One chart of the Measure page: a metric of some peers along an axis, the rest held fixed."""

    metric: Annotated[str, among(METRICS)] = "time"
    axis: Annotated[str, among(AXES)] = "length"
    direction: Annotated[str, among(DIRECTIONS)] = "forward"
    peers: Annotated[tuple[Annotated[str, among(PEERS)], ...], Meta(min_length=1)] = ("naive", *SHOWN)
    length: Annotated[int, Meta(gt=0)] = 1024
    head_dim: Annotated[int, Meta(gt=0)] = 64
    mask: Annotated[str, among(MASKS)] = "causal"
    dtype: Annotated[str, among(DTYPES)] = "float16"

    @property
    def view(self) -> SweepView:
        """What varies and what is fixed: tokens and width, as in the recorded sweep."""
        fixed = (self.length, self.head_dim, self.dtype, self.mask)
        return SweepView(self.axis, *fixed, tokens=TOKENS, width=WIDTH)


def chart_curves(chart: Chart) -> list[PeerCurve]:
    """Recorded curves of the peers, and the baseline of a speed-up. Raises InvalidChart if one is missing."""
    curves = recorded_curves(chart)
    if missing := [peer for peer in chart.peers if peer not in curves]:
        had = f"recorded are {', '.join(curves)}" if curves else "nothing of this chart was recorded"
        raise InvalidChart(f"{', '.join(missing)} was not recorded with these fields; {had}")
    baseline = ("naive",) if chart.metric == "speedup" and "naive" in curves else ()
    return [curves[peer] for peer in dict.fromkeys((*chart.peers, *baseline))]


def fullest_last(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Measurements in the order in which `peer_curves` takes them: those with the most results last.

    If a problem was measured twice, the measurement with more peers then counts, so that peers of one run are
    compared with each other. A peer that only the other one has keeps its points.
    """
    return sorted(measurements, key=lambda measurement: len(measurement.results))


def recorded_curves(chart: Chart) -> dict[str, PeerCurve]:
    measurements = fullest_last(recorded_document("sweeps").measurements)
    curves = peer_curves("recorded", measurements, chart.view)
    return {curve.peer: curve for curve in curves if curve.direction == chart.direction and curve.timings}


def chart_data(chart: Chart) -> dict:
    """What the stage draws: title, ticks, each peer's name, colour, mark and points. Raises InvalidChart."""
    drawn = drawn_curves(chart)
    xs = sorted({x for _, values in drawn for x, _ in values})
    ys = [y for _, values in drawn for _, y in values]
    ticks = sweep.value_ticks(ys, chart.metric)
    return {
        "title": f"{TITLES[chart.metric]}, {chart.direction}, against {chart.axis}, both on log scales",
        "x": [[math.log(x), format_length(x)] for x in xs],
        "y": [[math.log(tick), words] for tick, words in ticks if min(ys) <= 2 * tick <= 4 * max(ys)],
        "series": [
            {
                "name": SHOWN.get(curve.peer, sweep.peer_label(curve.peer).split(",")[0]),
                "color": PEER_COLORS.get(curve.peer, "text"),
                "symbol": sweep.SYMBOLS.get(curve.peer, "star"),
                "points": [[math.log(x), math.log(y)] for x, y in values],
                "last": sweep.format_metric(values[-1][1], chart.metric),
                "factor": _ratio(dict(values), dict(drawn[0][1]), THAN.get(chart.metric, "")) * bool(number),
            }
            for number, (curve, values) in enumerate(drawn)
        ],
        "source": _source(chart, drawn[0][0].points[0].problem),
    }


def _ratio(one: dict[int, float], other: dict[int, float], than: str = "") -> str:
    """How many times as large one curve is as the other, or the other as this one, where both end.

    With `than` it says so of the first curve, if that is the lower one.
    """
    both = one.keys() & other.keys()
    if not both or (than and one[max(both)] > other[max(both)]):
        return ""
    low, high = sorted((one[max(both)], other[max(both)]))
    return format_ratio(high / low) + than


def drawn_curves(chart: Chart) -> list[tuple[PeerCurve, list[tuple[int, float]]]]:
    """The curves that have values, and these; memory is of one sequence. Raises InvalidChart if none has."""
    curves = chart_curves(chart)
    drawn = []
    for curve in curves:
        per = {point.x: point.problem.batch if chart.metric == "memory" else 1 for point in curve.points}
        if values := sweep.curve_values(curve, curves, chart.metric):
            drawn.append((curve, [(x, value / per[x]) for x, value in values]))
    if not drawn:
        raise InvalidChart(f"{chart.metric} has no value here; standard attention has no speed-up")
    return drawn


def _source(chart: Chart, problem: AttentionProblem) -> str:
    """What was held fixed, as in any problem on the axis, and where the numbers are from."""
    document = recorded_document("sweeps")
    device, date = document.devices[0], max(entry.recorded_at[:10] for entry in document.measurements)
    where = f"{device.name}, {library_versions(device)}, {date}"
    return f"{fixed_words(problem, chart.axis)} · recorded on {where}"


def fixed_words(problem: AttentionProblem, axis: str, tokens: bool = True) -> str:
    """What a sweep holds fixed: "head_dim 64, full, float16, 16 heads"; `tokens` for batch and heads."""
    parts = [] if axis == "head_dim" else [f"head_dim {problem.head_dim}"]
    parts += [] if axis == "length" else [f"length {format_length(problem.q_len)}"]
    parts += [problem.mask, problem.dtype]
    if tokens:
        parts.append(f"{problem.batch * problem.q_len:,} tokens per launch")
        width = f"heads × head_dim = {problem.q_heads * problem.head_dim:,}"
        return ", ".join([*parts, width if axis == "head_dim" else f"{problem.q_heads} heads"])
    parts += [] if axis == "batch" else [f"batch {problem.batch}"]
    over = f" over {problem.kv_heads}" if problem.group_size > 1 else ""
    return ", ".join([*parts, format_count(problem.q_heads, "head") + over])


def chart_figures(chart: Chart) -> dict[str, str]:
    """{last} of the axis, and the value of each peer there, by its name. Raises InvalidChart for no curve."""
    figures = {"device": recorded_document("sweeps").devices[0].name}
    values = {curve.peer: dict(known) for curve, known in drawn_curves(chart)}
    if common := set.intersection(*(set(known) for known in values.values())):
        last = max(common)
        figures |= {peer: sweep.format_metric(known[last], chart.metric) for peer, known in values.items()}
        figures |= {f"{peer}_ratio": _ratio(known, [*values.values()][-1]) for peer, known in values.items()}
        figures["last"] = f"{last:,}"
    return figures
