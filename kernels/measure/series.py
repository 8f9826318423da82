"""Makes curves of measurements: which ones belong together, and with which power of the length they grow."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kernels.device.clocks import Timing
from kernels.measure.measure import naive_peak_bytes
from kernels.measure.measurement import Measurement, PeerResult
from kernels.problem import AttentionProblem

AXES = ("length", "head_dim", "batch")
TRAINING_STEP = "training step (forward and backward)"
FIT_POINTS = 3
"""Fewest points that an exponent is fitted to."""


@dataclass(frozen=True)
class SweepView:
    """Which measurements a chart shows: only the value on `axis` varies.

    If `tokens` is 0, the batch is fixed, else batch x length = tokens. If `width` is 0, the heads are fixed,
    else heads x head_dim = width.
    """

    axis: str
    """One of AXES."""
    length: int
    head_dim: int
    dtype: str
    mask: str
    batch: int = 1
    q_heads: int = 1
    tokens: int = 0
    width: int = 0
    kv_heads: int = 0
    """0: as many as query heads."""

    def shows(self, problem: AttentionProblem) -> bool:
        """Whether the problem lies on the axis, whatever its batch and heads are."""
        return (
            (problem.dtype, problem.mask, problem.inputs) == (self.dtype, self.mask, "normal")
            and (self.axis == "head_dim" or problem.head_dim == self.head_dim)
            and (self.axis == "length" or problem.q_len == self.length)
        )

    def x_of(self, problem: AttentionProblem) -> int:
        return {"length": problem.q_len, "head_dim": problem.head_dim, "batch": problem.batch}[self.axis]

    @property
    def fixed(self) -> tuple[str, int, int | None]:
        """What a shape begins with if the view asks for it."""
        if self.tokens:
            return "tokens", self.width, self.tokens
        return "heads", self.q_heads, None if self.axis == "batch" else self.batch

    def moved_to(self, x: int) -> "SweepView":
        return replace(self, **{self.axis: x})  # type: ignore[arg-type]  # the axes are whole numbers

    def problem(self, dtype: str = "") -> AttentionProblem:
        """The view's problem, of another dtype if one is given. Raises InvalidProblem."""
        heads = max(1, self.width // max(1, self.head_dim)) if self.width else self.q_heads
        return AttentionProblem(
            batch=max(1, self.tokens // max(1, self.length)) if self.tokens else self.batch,
            q_heads=heads,
            kv_heads=self.kv_heads or heads,
            q_len=self.length,
            kv_len=self.length,
            head_dim=self.head_dim,
            dtype=dtype or self.dtype,
            mask=self.mask,
        )


@dataclass(frozen=True)
class CurvePoint:
    """The result of one peer on one problem; `x` is the problem's value on the axis."""

    x: int
    measurement: Measurement
    result: PeerResult

    @property
    def problem(self) -> AttentionProblem:
        return self.measurement.problem

    def value(self, metric: str) -> float | None:
        """Milliseconds ("time", "call"), TFLOP/s ("tflops"), bytes ("memory") or joules ("energy").

        None if it was not measured.
        """
        if self.result.timing is None:
            return None
        if metric == "energy":
            return self.result.sustained.joules if self.result.sustained else None
        if metric == "time":
            return self.result.timing.median_ms
        if metric == "call":
            return self.result.call_ms
        return self.result.tflops(self.problem) if metric == "tflops" else self.result.peak_extra_bytes

    @property
    def needed_bytes(self) -> int | None:
        """Memory that standard attention would have needed (modelled) if it did not fit; else None."""
        did_not_fit = self.result.out_of_memory and self.result.peer == "naive"
        return naive_peak_bytes(self.problem, self.result.direction) if did_not_fit else None


@dataclass(frozen=True)
class PeerCurve:
    """One peer of one source in one direction, by rising x.

    Refused points are included: running out of memory is a result.
    """

    source: str
    peer: str
    direction: str
    points: tuple[CurvePoint, ...]

    @property
    def out_of_memory(self) -> tuple[CurvePoint, ...]:
        return tuple(point for point in self.points if point.result.out_of_memory)

    @property
    def timings(self) -> dict[int, Timing]:
        return {point.x: point.result.timing for point in self.points if point.result.timing}

    def values(self, metric: str) -> dict[int, float]:
        values = {point.x: point.value(metric) for point in self.points}
        return {x: value for x, value in values.items() if value is not None}

    def exponent(self, metric: str) -> float | None:
        """Power of x with which the time or memory of one sequence grows; see `fit_exponent`.

        One sequence takes the time or memory of a call over its batch.
        """
        values = self.values(metric)
        return fit_exponent([(p.x, values[p.x] / p.problem.batch) for p in self.points if p.x in values])


def training_steps(curves: Iterable[PeerCurve]) -> list[PeerCurve]:
    """The energy of a forward and a backward call together, of each peer and source that has both."""
    by_key = {(curve.source, curve.peer, curve.direction): curve for curve in curves}
    found = []
    for (source, peer, direction), forward in by_key.items():
        backward = by_key.get((source, peer, "backward"))
        if direction != "forward" or backward is None:
            continue
        behind = {point.x: point.result.sustained for point in backward.points}
        points = tuple(
            replace(point, result=replace(point.result, sustained=ahead.then(after)))
            for point in forward.points
            if (ahead := point.result.sustained) and (after := behind.get(point.x))
        )
        found.append(PeerCurve(source, peer, TRAINING_STEP, points))
    return [curve for curve in found if curve.points]


def fit_exponent(points: list[tuple[float, float]]) -> float | None:
    """p of the least-squares fit y = c x^p in logarithms, over the half of the points with larger x.

    At least three points are used. The smaller half is left out, because launch overhead and caches dominate
    it. None if there are fewer than three points, or all have the same x.
    """
    usable = sorted((math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0)
    usable = usable[-max(FIT_POINTS, math.ceil(len(usable) / 2)) :]
    xs, ys = [x for x, _ in usable], [y for _, y in usable]
    if len(usable) < FIT_POINTS or len(set(xs)) == 1:
        return None
    return statistics.linear_regression(xs, ys).slope


Shape = tuple[str, int, int | None, int | None, int]
"""What the problems of a curve share apart from head_dim, length, dtype and mask.

("heads", q_heads, batch) or ("tokens", heads x head_dim, batch x length); along the batch axis batch is None.
Then kv_len, None if each problem has as many keys as queries; then the query heads per key head.
"""


def _shapes(problem: AttentionProblem, axis: str) -> tuple[Shape, Shape]:
    kv_len = None if problem.kv_len == problem.q_len else problem.kv_len
    batch = None if axis == "batch" else problem.batch
    width, tokens = problem.q_heads * problem.head_dim, problem.batch * problem.q_len
    return (
        ("heads", problem.q_heads, batch, kv_len, problem.group_size),
        ("tokens", width, tokens, kv_len, problem.group_size),
    )


def peer_curves(source: str, measurements: Iterable[Measurement], view: SweepView) -> list[PeerCurve]:
    """The curves of one source along the view's axis.

    The curve has the shape that the view asks for if that was measured, rather with its key heads than with
    others; else the shape with the most points. If another shape has all its measurements and more, that one
    is taken. If a point was measured twice, the last one counts, with the energy of the earlier one if it has
    none.
    """
    by_shape: dict[Shape, dict[int, Measurement]] = defaultdict(dict)  # by id
    for measurement in measurements:
        if view.shows(measurement.problem):
            for shape in _shapes(measurement.problem, view.axis):
                by_shape[shape][id(measurement)] = measurement
    if not by_shape:
        return []

    def count(shape: Shape) -> int:
        return len({view.x_of(measurement.problem) for measurement in by_shape[shape].values()})

    group = view.q_heads // view.kv_heads if view.kv_heads else 1

    def fits(shape: Shape) -> tuple[bool, bool, int]:
        is_asked = shape[:3] == view.fixed
        return is_asked, is_asked and shape[-1] == group, count(shape)

    asked = max(by_shape, key=fits)
    chosen = max((shape for shape in by_shape if by_shape[asked].keys() <= by_shape[shape].keys()), key=count)
    points: dict[tuple[str, str], dict[int, CurvePoint]] = defaultdict(dict)
    for measurement in sorted(by_shape[chosen].values(), key=lambda each: view.x_of(each.problem)):
        x = view.x_of(measurement.problem)
        for result in measurement.results:
            of_peer = points[result.peer, result.direction]
            if x in of_peer and not result.sustained:
                result = replace(result, sustained=of_peer[x].result.sustained)
            of_peer[x] = CurvePoint(x, measurement, result)
    return [PeerCurve(source, *key, tuple(by_x.values())) for key, by_x in points.items()]


def speedups(curve: PeerCurve, others: Iterable[PeerCurve]) -> list[tuple[int, float]]:
    """(x, time of standard attention over the time of the curve) for each x at which the source has both."""
    wanted = (curve.source, "naive", curve.direction)
    naive = (other for other in others if (other.source, other.peer, other.direction) == wanted)
    naive_times = {x: time for other in naive for x, time in other.values("time").items()}
    return [(x, naive_times[x] / time) for x, time in curve.values("time").items() if x in naive_times]
