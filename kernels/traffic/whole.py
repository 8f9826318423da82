"""Requested bytes of a whole run, of which only a sample was traced: by formula, held against the sample."""

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kernels.problem import AttentionProblem
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm, TileBytes


@dataclass(frozen=True)
class WholeTraffic:
    """Bytes by tensor, reads and writes together."""

    bytes: dict[str, int]
    modelled: bool
    """Whether a formula gives them; else they were counted."""
    agrees: bool | None
    """Whether the formula gives, for the sample alone, the bytes counted there; None without a formula."""

    @property
    def total(self) -> int:
        """Bytes of all tensors."""
        return sum(self.bytes.values())


def counted_bytes(trace: Trace) -> dict[str, int]:
    """Requested bytes of the traced steps by tensor, reads and writes together."""
    totals = (trace.tensor_bytes_read + trace.tensor_bytes_written).sum(axis=0)
    return dict(zip(trace.tensors, totals.tolist(), strict=True))


def whole_traffic(trace: Trace, algorithm: Algorithm) -> WholeTraffic:
    """Bytes of the whole run.

    With a sample of heads they are the counted ones for as many heads as there are, since heads are alike;
    the entry's formula, if it has one, is held against them. With a sample of query tiles they are the sum of
    the entry's `tile_bytes`.
    """
    counted, problem, sample = counted_bytes(trace), trace.problem, trace.sample
    if sample is None:
        return WholeTraffic(counted, modelled=False, agrees=None)
    if sample.q_tiles is None or algorithm.tile_bytes is None:
        sampled = len(sample.key_heads(problem))
        whole = {name: size * problem.key_heads // sampled for name, size in counted.items()}
        agrees = None
        if algorithm.has_formula:
            expected = [algorithm.requested_bytes(each) for each in (sample.part(problem), problem)]
            agrees = expected == [sum(counted.values()), sum(whole.values())]
        return WholeTraffic(whole, modelled=True, agrees=agrees)
    of_sample = _of_tiles(algorithm.tile_bytes, problem, len(sample.heads), sample.q_tiles)
    whole = _of_tiles(algorithm.tile_bytes, problem, problem.heads, range(problem.q_tiles))
    return WholeTraffic(whole, True, of_sample == counted)


@functools.lru_cache(maxsize=32)
def _of_tiles(
    tile_bytes: TileBytes, problem: AttentionProblem, heads: int, q_tiles: Sequence[int]
) -> dict[str, int]:
    total: Counter[str] = Counter()
    for q_tile in q_tiles:
        total.update(tile_bytes(problem, q_tile))
    return {name: heads * size for name, size in total.items()}
