"""The time or energy of a problem that may not have been measured, from the nearest one that was.

A time is that of just this problem if it was measured. Else it is scaled: in a pass over many queries by
FLOPs, in a decoding step by compulsory bytes, for standard attention by its bytes. The time of the fastest
call of any peer is a launch, and is not scaled. A step is never scaled down, because most of it is a launch,
and its measurement has within twice as many or few bytes.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kernels.algorithms.standard.traffic import standard_bytes
from kernels.measure.measurement import Measurement, PeerResult
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import attention_flops, compulsory_bytes

NAIVE = "naive"


@dataclass(frozen=True)
class Estimate:
    """The milliseconds or joules of one call on a problem, and the measurement that they are from."""

    amount: float
    problem: AttentionProblem
    measurement: Measurement

    @property
    def is_exact(self) -> bool:
        return not self.differences

    @property
    def differences(self) -> tuple[str, ...]:
        """How far the measured problem is, field by field: "length 4,096, not 8,192"."""
        return differences(self.measurement.problem, self.problem)


def differences(there: AttentionProblem, asked: AttentionProblem) -> tuple[str, ...]:
    """What a measured problem has otherwise than the one asked for; tiles and inputs do not count."""

    def facts(problem: AttentionProblem) -> dict[str, str]:
        window = f" of {problem.window_left + problem.window_right + 1:,}" if problem.mask == "window" else ""
        return {
            "length": f"{problem.kv_len:,}",
            "batch": f"{problem.batch}",
            "heads": f"{problem.q_heads} over {problem.kv_heads}",
            "head_dim": f"{problem.head_dim}",
            "mask": problem.mask + window,
            "dtype": problem.dtype,
        }

    found, wanted = facts(there), facts(asked)
    words = [f"{name} {found[name]}, not {wanted[name]}" for name in found if found[name] != wanted[name]]
    return (*words, *(["another number of queries"] if is_step(there) != is_step(asked) else []))


def is_step(problem: AttentionProblem) -> bool:
    """Whether it is a decoding step, which waits for bytes; all else has work for the matrix units."""
    return problem.q_len == 1


def bytes_apart(there: AttentionProblem, asked: AttentionProblem) -> float:
    """Compulsory bytes of one over those of the other, as a power of two."""
    return math.log2(compulsory_bytes(there) / compulsory_bytes(asked))


def distance(there: AttentionProblem, asked: AttentionProblem) -> float:
    """How far two problems are apart, in powers of two; head_dim and mask count most.

    The size of a decoding step is its bytes, as it waits for them. A smaller problem counts twice: more of
    its time may be a launch.
    """

    def factor(name: str, smaller: float = 1.0) -> float:
        power = math.log2(getattr(there, name) / getattr(asked, name))
        return abs(power) * (smaller if power < 0 else 1.0)

    far = 4 * factor("head_dim")
    if is_step(asked):
        power = bytes_apart(there, asked)
        far += max(power, -2 * power)
    else:
        far += factor("kv_len", smaller=2) + factor("heads", smaller=2)
    far += 0.5 * factor("group_size") + 0.25 * (there.dtype != asked.dtype)
    far += 8 * (there.itemsize != asked.itemsize)
    masks = {there.mask, asked.mask}
    if masks == {"window"}:
        return far + 0.5 * abs(math.log2((1 + there.window_left) / (1 + asked.window_left)))
    return far + (len(masks) > 1) * (4 + ("full" in masks))


def work(problem: AttentionProblem, peer: str, direction: str) -> float:
    if peer == NAIVE:
        return standard_bytes(problem, direction)
    return compulsory_bytes(problem, direction) if is_step(problem) else attention_flops(problem, direction)


AMOUNTS: dict[str, Callable[[PeerResult], float | None]] = {
    "ms": lambda result: result.timing.median_ms if result.timing else None,
    "joules": lambda result: result.sustained.joules if result.sustained else None,
}
"""Milliseconds of one call; joules of one of many calls without a pause."""


def estimate(
    problem: AttentionProblem,
    peer: str,
    measurements: Iterable[Measurement],
    direction: str = "forward",
    unit: str = "ms",
) -> Estimate | None:
    """What one call by a peer takes, in a unit of AMOUNTS; None if of nothing like it a GPU gave that.

    Of equally near measurements the first one counts.
    """
    amount = AMOUNTS[unit]
    on_gpus = [each for each in measurements if each.device.backend == "cuda"]
    results = ((each, each.result(peer, direction)) for each in on_gpus)
    known = [(each, found) for each, result in results if result and (found := amount(result)) is not None]
    alike = [pair for pair in known if is_step(pair[0].problem) == is_step(problem)]
    if is_step(problem):
        alike = [pair for pair in alike if abs(bytes_apart(pair[0].problem, problem)) <= 1]
    if problem.pattern:  # no other problem tells what its mask costs
        alike = [pair for pair in alike if pair[0].problem == problem]
    if not alike:
        return None
    nearest, there = min(alike, key=lambda pair: distance(pair[0].problem, problem))
    found = there
    if differences(nearest.problem, problem):
        amounts = (amount(result) for each in on_gpus for result in each.results)
        least = min(each for each in amounts if each is not None)
        factor = work(problem, peer, direction) / work(nearest.problem, peer, direction)
        found = max(least + (there - least) * factor, there if is_step(problem) else 0.0)
    return Estimate(found, problem, nearest)
