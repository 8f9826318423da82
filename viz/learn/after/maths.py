"""The numbers of the last chapter: split keys, work of ranks, clocks of units.

Split keys: Dao et al. 2023; the plan of programs is a model. Clocks, modelled: with every generation of GPUs
the tensor cores get faster, and exponentials do not keep up (Shah et al. 2024, section 3; Zadouri et al.
2026).
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from kernels.device.gpus import GPUS
from kernels.problem import AttentionProblem
from kernels.problem.tiles import PROGRAMS_PER_SM, split_evenly, splits_to_fill
from kernels.trace.ranks import RanksTrace
from viz.learn.softmax.maths import first_head, log_sum_exp, softmax

ROW_TILE = 16
"""Fewest packed rows of one program: the smallest tile of the tensor cores."""


@dataclass(frozen=True, eq=False)
class SplitRow:
    """One query's attention in parts, and merged. Arrays are (parts,) or (parts, head_dim), float64."""

    row_max: np.ndarray
    row_sum: np.ndarray
    outputs: np.ndarray
    """Each part's own softmax times its values."""
    lse_of_part: np.ndarray
    lse: float
    weights: np.ndarray
    """exp(lse of the part - lse), which add up to 1."""
    error: float
    """Largest difference of the parts, merged by their weights, from the row computed whole."""
    mean_error: float
    """The same for the plain mean of the parts."""


@functools.lru_cache(maxsize=8)
def split_row(row: AttentionProblem, splits: int) -> SplitRow:
    """Split the keys of one query of one head into `splits` parts of whole key tiles.

    There are fewer parts if one would be empty. The numbers are the kernel's inputs, in float16.
    """
    query, key, value = (array.astype(np.float16).astype(np.float64) for array in first_head(row))
    scores = key @ query[0] * row.scale
    count, tiles_per_split = split_evenly(row.kv_tiles, splits)
    size = tiles_per_split * row.block_n
    parts = tuple(slice(part * size, min((part + 1) * size, row.kv_len)) for part in range(count))
    row_max = np.array([scores[part].max() for part in parts])
    lse_of_part = np.array([log_sum_exp(scores[part]) for part in parts])
    outputs = np.stack([softmax(scores[part]) @ value[part] for part in parts])
    lse = float(log_sum_exp(lse_of_part))
    weights = np.exp(lse_of_part - lse)
    whole = softmax(scores) @ value
    error, mean_error = (
        float(np.abs(got - whole).max()) for got in (weights @ outputs, outputs.mean(axis=0))
    )
    row_sum = np.exp(lse_of_part - row_max)
    return SplitRow(row_max, row_sum, outputs, lse_of_part, lse, weights, error, mean_error)


@dataclass(frozen=True)
class Occupancy:
    """How splits fill a GPU. Modelled: PROGRAMS_PER_SM at once, and all key tiles take the same time."""

    splits: int
    tiles_per_split: int
    programs: int
    sm_count: int

    @property
    def waves(self) -> int:
        """How often the GPU is filled until all programs have run."""
        return math.ceil(self.programs / (PROGRAMS_PER_SM * self.sm_count))

    @property
    def tile_steps(self) -> int:
        """Key tiles in a row until the last program ends."""
        return self.waves * self.tiles_per_split


def dealt(programs: int, sm_count: int) -> np.ndarray:
    """int (sm_count,): programs of each SM in the first wave, at most PROGRAMS_PER_SM each, dealt in turn."""
    return np.bincount(np.arange(min(programs, PROGRAMS_PER_SM * sm_count)) % sm_count, minlength=sm_count)


def occupancy(problem: AttentionProblem, sm_count: int, splits: int = 0) -> Occupancy:
    """With `splits` parts of each tile of packed rows; 0: as many as the kernel's rule, splits_to_fill."""
    programs = problem.key_heads * math.ceil(problem.packed_rows / max(problem.block_m, ROW_TILE))
    wanted = splits or splits_to_fill(programs, problem.kv_tiles, sm_count)
    parts, tiles_per_split = split_evenly(problem.kv_tiles, min(wanted, problem.kv_tiles))
    return Occupancy(parts, tiles_per_split, programs * parts, sm_count)


def partial_bytes(problem: AttentionProblem, splits: int) -> int:
    """Bytes that splitting adds: partial O and lse, float32, written and read, lse read twice. Modelled."""
    rows = problem.batch * problem.q_heads * problem.q_len
    return splits * rows * (2 * problem.head_dim + 3) * 4 if splits > 1 else 0


def cache_bytes(problem: AttentionProblem) -> int:
    """Bytes of K and V, which every decoding step reads once. Modelled."""
    return 2 * math.prod(problem.kv_shape) * problem.itemsize


def work_shares(trace: RanksTrace) -> np.ndarray:
    """(ranks,): each rank's share of all pairs of a query and a key that were seen. Recorded."""
    pairs = np.array([trace.pairs(rank) for rank in range(trace.ranks)])
    return pairs / pairs.sum()


EXPONENTIALS_PER_CLOCK = 16
GENERATIONS = ("A100", "H100", "B200")
TILE = 128
"""Queries and keys of the tile whose clocks are compared."""
Clocks = dict[str, dict[str, float]]
"""GPU -> unit of an SM -> clocks that it needs for a tile."""


def tile_clocks(head_dim: int) -> Clocks:
    """Clocks of one SM for QK^T, PV and the exponentials of a tile of TILE x TILE.

    Their sum is the time of one unit at a time; the largest is that of all at once, each on another tile.
    Loads, masks, maxima and sums are left out. Rates per clock and SM: CUDA C++ Programming Guide,
    throughput of arithmetic instructions, compute capability 8.0, 9.0 and 10.0.
    """
    scores = TILE * TILE
    return {
        name: {
            "tensor cores": 4 * scores * head_dim / GPUS[name].fp16_flops_per_clock,
            "exponentials": scores / EXPONENTIALS_PER_CLOCK,
        }
        for name in GENERATIONS
    }
