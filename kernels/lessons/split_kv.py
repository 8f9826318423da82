"""Splitting the keys of one query, and how it fills the GPU. NumPy float64; the plan of programs is a model.

Dao et al. 2023: each part gives (m, l, o), or lse and its own output, and lse merges them.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np

from kernels.lessons.softmax import log_sum_exp, softmax
from kernels.problem import AttentionProblem
from kernels.problem.inputs import draw_inputs
from kernels.problem.tiles import PROGRAMS_PER_SM, split_evenly, splits_to_fill

ROW_TILE = 16
"""Fewest packed rows of one program: the smallest tile of the tensor cores."""


@dataclass(frozen=True, eq=False)
class SplitRow:
    """One query's attention in parts, and merged. Arrays are (parts,) or (parts, head_dim), float64."""

    first_key: np.ndarray
    end_key: np.ndarray
    row_max: np.ndarray
    row_sum: np.ndarray
    lse_of_part: np.ndarray
    outputs: np.ndarray
    """(parts, head_dim): each part's own softmax times its values."""
    lse: float
    weights: np.ndarray
    """exp(lse of the part - lse), which add up to 1."""
    merged: np.ndarray
    whole: np.ndarray
    """(head_dim,): attention of the same row without splitting."""

    @property
    def error(self) -> float:
        """Largest difference of the merged output from the whole one."""
        return float(np.abs(self.merged - self.whole).max())

    @property
    def mean_error(self) -> float:
        """The same for the plain mean of the parts, without weights."""
        return float(np.abs(self.outputs.mean(axis=0) - self.whole).max())


@functools.lru_cache(maxsize=8)
def _first_row(problem: AttentionProblem) -> tuple[np.ndarray, np.ndarray]:
    """Scores (kv_len,) of the query, and the values (kv_len, head_dim): the kernel's inputs, in float16."""
    query, key, value = (array[0, 0].astype(np.float16).astype(np.float64) for array in draw_inputs(problem))
    return key @ query[0] * problem.scale, value


def one_row(problem: AttentionProblem) -> AttentionProblem:
    """The same decoding problem with one query of one head: what `split_row` computes."""
    return problem.with_(batch=1, q_heads=1, kv_heads=1, q_len=1, kv_splits=0)


def split_row(problem: AttentionProblem, splits: int) -> SplitRow:
    """Split the keys of one query and head into `splits` parts of whole key tiles.

    There are fewer parts if one would be empty.
    """
    scores, values = _first_row(one_row(problem))
    parts, tiles_per_split = split_evenly(problem.kv_tiles, splits)
    bounds = np.minimum(np.arange(parts + 1) * tiles_per_split * problem.block_n, problem.kv_len)
    pieces = [slice(*bound) for bound in itertools.pairwise(bounds.tolist())]
    row_max = np.array([scores[piece].max() for piece in pieces])
    row_sum = np.array(
        [np.exp(scores[piece] - top).sum() for piece, top in zip(pieces, row_max, strict=True)]
    )
    outputs = np.stack(
        [
            np.exp(scores[p] - top) @ values[p] / total
            for p, top, total in zip(pieces, row_max, row_sum, strict=True)
        ]
    )
    lse_of_part = row_max + np.log(row_sum)
    lse = float(log_sum_exp(lse_of_part))
    weights = np.exp(lse_of_part - lse)
    return SplitRow(
        bounds[:-1],
        bounds[1:],
        row_max,
        row_sum,
        lse_of_part,
        outputs,
        lse,
        weights,
        weights @ outputs,
        softmax(scores) @ values,
    )


@dataclass(frozen=True)
class Occupancy:
    """How a number of splits fills a GPU.

    Modelled: PROGRAMS_PER_SM programs per SM at once, and every key tile takes the same time.
    """

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


def unsplit_programs(problem: AttentionProblem) -> dict[str, int]:
    """FlashAttention-1 has one program per batch and head, FlashAttention-2 one for each query tile too."""
    heads = problem.batch * problem.q_heads
    return {"FlashAttention-1": heads, "FlashAttention-2": heads * problem.q_tiles}


def dealt(programs: int, sm_count: int) -> np.ndarray:
    """int (sm_count,): programs of each SM in the first wave, at most PROGRAMS_PER_SM each, dealt in turn."""
    return np.bincount(np.arange(min(programs, PROGRAMS_PER_SM * sm_count)) % sm_count, minlength=sm_count)


def row_programs(problem: AttentionProblem) -> int:
    """Programs of split-KV with one part: one for each tile of packed query rows of each key head."""
    rows = problem.q_heads // problem.kv_heads * problem.q_len
    return problem.batch * problem.kv_heads * math.ceil(rows / max(problem.block_m, ROW_TILE))


def occupancy(problem: AttentionProblem, sm_count: int, splits: int = 0) -> Occupancy:
    """With `splits` parts; 0 means as many as the kernel's own rule (tiles.splits_to_fill) chooses."""
    programs = row_programs(problem)
    wanted = splits or splits_to_fill(programs, problem.kv_tiles, sm_count)
    parts, tiles_per_split = split_evenly(problem.kv_tiles, min(wanted, problem.kv_tiles))
    return Occupancy(parts, tiles_per_split, programs * parts, sm_count)


def occupancy_curve(problem: AttentionProblem, sm_count: int) -> tuple[Occupancy, ...]:
    """One plan for each number of parts that can occur, from one part to one key tile per part."""
    plans = (occupancy(problem, sm_count, splits) for splits in range(1, problem.kv_tiles + 1))
    plan_of = {plan.splits: plan for plan in plans}
    return tuple(plan_of[splits] for splits in sorted(plan_of))


def partial_bytes(problem: AttentionProblem, splits: int) -> int:
    """Bytes that splitting adds: partial O and lse, float32, written once and read once. Modelled."""
    rows = problem.batch * problem.q_heads * problem.q_len
    return 2 * splits * rows * (problem.head_dim + 1) * 4 if splits > 1 else 0


def cache_bytes(problem: AttentionProblem) -> int:
    """Bytes of K and V, which every decoding step reads once. Modelled."""
    return 2 * problem.batch * problem.kv_heads * problem.kv_len * problem.head_dim * problem.itemsize
