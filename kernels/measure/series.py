"""From measurements to curves: which of them belong to one curve, and with which power of the length it grows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from kernels.measure.measure import naive_peak_bytes
from kernels.measure.measurement import Measurement, PeerResult
from kernels.problem import AttentionProblem

AXES = ("length", "head_dim", "batch")
METRICS = ("time", "tflops", "memory", "speedup")
FIT_POINTS = 3
"""Fewest points that an exponent is fitted to."""


@dataclass(frozen=True)
class View:
    """Which measurements are looked at: everything but `axis` is held fixed.

    `tokens` of 0 means that batch and heads are held fixed, else that batch x length and heads x head_dim are.
    """

    axis: str
    length: int
    head_dim: int
    dtype: str
    mask: str
    batch: int = 1
    q_heads: int = 1
    tokens: int = 0
    width: int = 0

    def shows(self, problem: AttentionProblem) -> bool:
        """Whether the problem lies on the axis, batch and heads left aside."""
        if (problem.dtype, problem.mask, problem.inputs) != (self.dtype, self.mask, "normal"):
            return False
        if self.axis != "head_dim" and problem.head_dim != self.head_dim:
            return False
        return self.axis == "length" or problem.q_len == self.length


@dataclass(frozen=True)
class Point:
    """One result at a place on the axis."""

    x: int
    problem: AttentionProblem
    result: PeerResult

    def value(self, metric: str) -> float | None:
        """Milliseconds, TFLOP/s, or bytes; None where it was not measured."""
        if self.result.timing is None:
            return None
        if metric == "time":
            return self.result.timing.median_ms
        return self.result.tflops(self.problem) if metric == "tflops" else float(self.result.peak_extra_bytes)

    @property
    def needed_bytes(self) -> int | None:
        """What naive attention would have needed where it did not fit (modelled); None elsewhere."""
        fits = not self.result.out_of_memory or self.result.peer != "naive"
        return None if fits else naive_peak_bytes(self.problem, self.result.direction)


@dataclass(frozen=True)
class Curve:
    """One peer of one source in one direction, by rising x. Points that were refused are in it: running out of memory is a result."""

    source: str
    peer: str
    direction: str
    points: tuple[Point, ...]

    @property
    def measured(self) -> tuple[Point, ...]:
        """Points with a timing."""
        return tuple(point for point in self.points if point.result.timing is not None)

    @property
    def out_of_memory(self) -> tuple[Point, ...]:
        """Points at which the device had too little memory."""
        return tuple(point for point in self.points if point.result.out_of_memory)

    def exponent(self, metric: str) -> float | None:
        """Power of x with which time or memory of one sequence grows (a launch's over its batch); see `fit_exponent`."""
        return fit_exponent([(point.x, point.value(metric) / point.problem.batch) for point in self.measured])


def fit_exponent(points: list[tuple[float, float]]) -> float | None:
    """p of the least-squares fit y = c x^p in logarithms, over the larger half of the points, at least three.

    The smaller half is left out because launches and caches rule there. None with fewer than three points.
    """
    usable = sorted((math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0)
    usable = usable[-max(FIT_POINTS, math.ceil(len(usable) / 2)) :]
    if len(usable) < FIT_POINTS:
        return None
    mean_x, mean_y = (sum(values) / len(usable) for values in zip(*usable, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in usable)
    return sum((x - mean_x) * (y - mean_y) for x, y in usable) / spread if spread else None


def place(problem: AttentionProblem, axis: str) -> int:
    """Where on the axis a problem lies."""
    return {"length": problem.q_len, "head_dim": problem.head_dim, "batch": problem.batch}[axis]


def family(problem: AttentionProblem, axis: str, tokens: bool) -> tuple:
    """What is held fixed beside the axis: batch and heads, or tokens and width."""
    key_length = "same" if problem.kv_len == problem.q_len else problem.kv_len
    group = problem.q_heads // problem.kv_heads
    if tokens:
        return "tokens", key_length, group, problem.batch * problem.q_len, problem.q_heads * problem.head_dim
    return "fixed", key_length, group, problem.q_heads, None if axis == "batch" else problem.batch


def curves(source: str, measurements: Iterable[Measurement], view: View) -> list[Curve]:
    """The curves of one source along the view's axis.

    Of the families of shapes that lie there, the one the view names is taken if it has been measured (or a larger one that
    holds all of it), else the one with the most points. Where a point was measured twice, the last one given counts.
    """
    families: dict[tuple, dict[int, list[Measurement]]] = defaultdict(lambda: defaultdict(list))
    for measurement in measurements:
        if view.shows(measurement.problem):
            for tokens in (False, True):
                key = family(measurement.problem, view.axis, tokens)
                families[key][place(measurement.problem, view.axis)].append(measurement)
    if not families:
        return []
    wanted = max(families, key=lambda key: (_is_wanted(key, view), len(families[key])))
    members = _members(families[wanted])
    chosen = max((found for found in families.values() if members <= _members(found)), key=len)
    found: dict[tuple[str, str], dict[int, Point]] = defaultdict(dict)
    for x in sorted(chosen):
        for measurement in chosen[x]:
            for result in measurement.results:
                found[result.peer, result.direction][x] = Point(x, measurement.problem, result)
    return [
        Curve(source, peer, direction, tuple(points.values())) for (peer, direction), points in found.items()
    ]


def _members(found: dict[int, list[Measurement]]) -> set[int]:
    return {id(measurement) for of_x in found.values() for measurement in of_x}


def _is_wanted(key: tuple, view: View) -> bool:
    if view.tokens:
        return key[0] == "tokens" and key[3:] == (view.tokens, view.width)
    return key[0] == "fixed" and key[3:] == (view.q_heads, None if view.axis == "batch" else view.batch)


def speedups(curve: Curve, others: Iterable[Curve]) -> list[tuple[int, float]]:
    """(x, time of naive attention over the time of the curve) where the same source measured both."""
    naive = next(
        (
            other
            for other in others
            if (other.source, other.peer, other.direction) == (curve.source, "naive", curve.direction)
        ),
        None,
    )
    if naive is None:
        return []
    times = {point.x: point.value("time") for point in naive.measured}
    return [(point.x, times[point.x] / point.value("time")) for point in curve.measured if point.x in times]
