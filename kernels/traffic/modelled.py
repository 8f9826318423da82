"""Modelled work and least traffic of attention, all by formula. The docstrings name the sources."""

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kernels.problem import AttentionProblem
from kernels.problem.pattern import plan_of, seen_once
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


LSE_BYTES = 4
"""lse is float32 whatever the type of the inputs."""
BACKWARD_FLOPS = 2.5
"""Backward over forward: five matrix products instead of two."""


def compulsory_bytes(problem: AttentionProblem, direction: str = "forward", with_lse: bool = True) -> int:
    """Least bytes of a pass: every input that counts read once, every result written once.

    Forward: Q, K and V in, O and lse out. Backward: Q, K, V, O, dO and lse in, dQ, dK and dV out. Rows that
    see no key, and keys that no row sees, are not read, and their gradients, which are 0, do not count.
    `with_lse` says whether lse is among the results of a forward pass.
    """
    rows = problem.heads * problem.q_len
    rows_read = problem.heads * min(problem.q_len, problem.kv_len + problem.band.right)
    keys_read = problem.key_heads * min(problem.kv_len, problem.q_len + problem.band.left)
    if problem.pattern and problem.pattern.mask:
        rows_read, keys_read = seen_once(problem.pattern, problem.group_size)
    if direction == "forward":
        moved, lse_rows = rows_read + 2 * keys_read + rows, rows if with_lse else 0
    else:
        moved, lse_rows = 4 * rows_read + 4 * keys_read, rows_read
    return moved * problem.head_dim * problem.itemsize + lse_rows * LSE_BYTES


def least_bytes(problem: AttentionProblem, algorithm: Algorithm) -> int:
    """Least bytes of any kernel with the algorithm's results: with lse only if the algorithm stores it."""
    return compulsory_bytes(problem, algorithm.direction, with_lse=stores_lse(algorithm))


def stores_lse(algorithm: Algorithm) -> bool:
    """Whether lse is among the results that the algorithm writes to HBM."""
    return any("lse" in phase.stores for kernel in algorithm.kernels for phase in kernel.phases)


def forward_flops(problem: AttentionProblem) -> int:
    """4 b h d per pair of a query and a key that it sees; never 0, because the last query sees the last key.

    A full mask has q_len kv_len pairs. A causal mask of equal lengths counts as half of them, by the
    convention of FlashAttention's benchmarks. Any other mask counts its visible pairs exactly.
    """
    per_pair = 4 * problem.heads * problem.head_dim
    if problem.is_causal and problem.q_len == problem.kv_len:
        return per_pair * problem.q_len * problem.kv_len // 2
    if problem.pattern and problem.pattern.mask:
        pairs = plan_of(problem.pattern, problem.block_m, problem.block_n).pairs
        seen = int(pairs.sum()) * (problem.heads // len(pairs))
        return 4 * problem.head_dim * max(seen, 1)  # an expression may hide every key
    return per_pair * problem.band.visible_pairs


def attention_flops(problem: AttentionProblem, direction: str) -> float:
    """Floating-point operations of a pass: those of `forward_flops`, backward 2.5 times as many."""
    return forward_flops(problem) * (BACKWARD_FLOPS if direction == "backward" else 1.0)
