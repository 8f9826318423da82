"""Which part of a long run is traced: some heads, and some query tiles of each. The rest follows by formula.

Heads are alike, and programs of different query tiles share nothing. So the sampled programs do what they
would do in the whole run.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta

from kernels.problem import AttentionProblem
from kernels.problem.tiles import visited_tiles
from kernels.trace.algorithm import Algorithm

AT_ONCE_S = 2.0
"""A sample is as large as can be traced in about this time."""
SOON_S = 8.0
"""A sample of one or two query tiles, or of one key head, may take this long."""
PATIENCE_S = 60.0
"""If even the smallest sample takes longer than this, there is none."""
GOOD_STEPS = 4096
"""Most steps of a sample of several tiles: as many as a player draws and accumulators are kept for."""
MOST_STEPS = 1 << 16
"""Most steps of the smallest sample."""
HEADS, TILES = (4, 2, 1), (6, 4, 3)
"""Numbers of heads and of query tiles that are tried."""


@dataclass(frozen=True)
class Sample:
    """The traced part of a run."""

    heads: Annotated[tuple[int, ...], Meta(min_length=1)]
    """batch * q_heads + head of each traced query head, ascending. If several share a key head, all do."""
    q_tiles: Annotated[tuple[int, ...], Meta(min_length=1)] | None = None
    """The traced query tiles of each of these heads, ascending; None for all."""

    def fits(self, problem: AttentionProblem) -> bool:
        """Whether the problem has these heads and query tiles, each named once and in order.

        Heads that differ in more than their tensors are all traced or none.
        """
        differs = problem.pattern is not None and problem.pattern.differs_by_head
        if differs and (len(self.heads) < problem.heads or problem.batch > 1):  # a part has one batch
            return False
        names = ((self.heads, problem.heads), (self.q_tiles or (0,), problem.q_tiles))
        return all(
            list(numbers) == sorted(set(numbers)) and 0 <= numbers[0] and numbers[-1] < end
            for numbers, end in names
        )

    def key_heads(self, problem: AttentionProblem) -> tuple[int, ...]:
        """batch * kv_heads + key head of the key heads that the traced heads read, ascending."""
        return tuple(dict.fromkeys(head // problem.group_size for head in self.heads))

    def part(self, problem: AttentionProblem) -> AttentionProblem:
        """The traced heads as a problem of their own: a sample runs on the inputs of this problem."""
        return problem.with_(batch=1, q_heads=len(self.heads), kv_heads=len(self.key_heads(problem)))

    def rows(self, problem: AttentionProblem) -> np.ndarray:
        """int (rows,): the traced queries of each head."""
        if self.q_tiles is None:
            return np.arange(problem.q_len)
        return np.concatenate([np.arange(*tile_bounds(problem, tile)) for tile in self.q_tiles])

    def words(self, problem: AttentionProblem) -> str:
        """Such as "4 of 32 heads, 6 of 2,048 query tiles"; what is whole is left out."""
        counts = [(len(self.heads), problem.heads, "heads")]
        if self.q_tiles is not None:
            counts.append((len(self.q_tiles), problem.q_tiles, "query tiles"))
        return ", ".join(f"{some:,} of {every:,} {name}" for some, every, name in counts if some < every)


def tile_bounds(problem: AttentionProblem, q_tile: int) -> tuple[int, int]:
    """First query of a query tile, and one past its last."""
    first = q_tile * problem.block_m
    return first, min(first + problem.block_m, problem.q_len)


def sampled_steps(problem: AttentionProblem, algorithm: Algorithm, sample: Sample) -> int:
    if sample.q_tiles is None:
        return algorithm.steps(sample.part(problem))
    return len(sample.heads) * sum(max(visited_tiles(problem, tile).count, 1) for tile in sample.q_tiles)


def choose_sample(
    problem: AttentionProblem, algorithm: Algorithm, seconds: Callable[[int], float]
) -> Sample | None:
    """The sample to trace, spread over the heads and from the first to the last query tile.

    `seconds` estimates a run by its number of steps. None if the algorithm cannot be sampled, if its smallest
    sample takes longer than PATIENCE_S, or if a sample is no smaller than the run.
    """
    for sample, limit_s, limit in _candidates(problem, algorithm):
        if not sample.fits(problem):
            continue
        steps = sampled_steps(problem, algorithm, sample)
        if sample.words(problem) and steps <= limit and seconds(steps) <= limit_s:
            return sample
    return None


def _candidates(problem: AttentionProblem, algorithm: Algorithm) -> Iterator[tuple[Sample, float, int]]:
    """Samples from the best to the smallest, each with its limits: seconds and steps."""
    if algorithm.samples == "tiles":
        for tiles in TILES:
            for heads in HEADS:
                sample = Sample(
                    _some_heads(problem, heads, whole_groups=False), evenly_spaced(problem.q_tiles, tiles)
                )
                yield sample, AT_ONCE_S, GOOD_STEPS
        (head,) = _some_heads(problem, 1, whole_groups=False)
        last = problem.q_tiles - 1
        for few, limit_s in (((0, last), SOON_S), ((last,), SOON_S), ((last,), PATIENCE_S)):
            yield Sample((head,), tuple(dict.fromkeys(few))), limit_s, MOST_STEPS
    elif algorithm.samples == "heads":
        for heads in HEADS:
            yield Sample(_some_heads(problem, heads, whole_groups=True)), AT_ONCE_S, MOST_STEPS
        yield Sample(_some_heads(problem, 1, whole_groups=True)), PATIENCE_S, MOST_STEPS


def _some_heads(problem: AttentionProblem, count: int, whole_groups: bool) -> tuple[int, ...]:
    """Query heads of `count` key heads: all that share each of them, or the first one."""
    members = range(problem.group_size if whole_groups else 1)
    key_heads = evenly_spaced(problem.key_heads, count)
    return tuple(head * problem.group_size + member for head in key_heads for member in members)


def evenly_spaced(count: int, wanted: int) -> tuple[int, ...]:
    """At most `wanted` numbers from 0 to count - 1, both among them, evenly spaced."""
    return tuple(np.unique(np.linspace(0, count - 1, min(wanted, count)).round().astype(int)).tolist())
