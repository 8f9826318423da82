"""Five ideas of FlashAttention: which needs which, and what it costs to leave one out.

The five ideas and their order are those of "Making Attention I/O-Aware".
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from kernels.algorithms.flash2.entry import FORWARD, requested_bytes
from kernels.algorithms.standard.traffic import standard_bytes
from kernels.device.gpus import Gpu
from kernels.lessons.softmax import softmax
from kernels.lessons.tiling import join_tile
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import LSE_BYTES

NEEDS = {
    "fusion": ("tiling", "recomputation"),
    "tiling": ("online softmax",),
    "online softmax": (),
    "recomputation": ("lse",),
    "lse": ("online softmax",),
}
"""idea -> the ideas without which it does not work."""

FLOAT32_BYTES = 4


@dataclass(frozen=True)
class Costs:
    """What one call costs, for one head. Modelled, except the last two fields, which are computed."""

    forward_bytes: int
    """Requested bytes of the forward pass."""
    chip_bytes: int
    """What one program of the forward pass keeps on the chip."""
    kept_bytes: int
    """Kept from the forward to the backward pass, beyond Q, K, V and O."""
    backward_flops: int
    """Matrix products of the backward pass, 2 N_q N_k d each: five of them (Dao et al. 2022, algorithm 4)."""
    weight_sum: float
    """Sum of the weights of one row; 1 in attention. Computed."""
    output_error: float
    """Largest error of O over the rows looked at. Computed."""


def falls_with(left_out: str) -> set[str]:
    """The ideas that no longer work when `left_out` is: those that need it, and those that need these."""
    fallen = {left_out}
    while more := {idea for idea, needs in NEEDS.items() if idea not in fallen and fallen & set(needs)}:
        fallen |= more
    return fallen - {left_out}


def costs(problem: AttentionProblem, gpu: Gpu, left_out: str | None = None) -> Costs:
    """Costs of `problem` on `gpu` with all five ideas, or with one of them left out and not replaced.

    Without fusion S and P go through HBM; also without tiling, if whole rows do not fit on the chip.
    """
    square = problem.q_len * problem.kv_len
    product = 2 * square * problem.head_dim
    weight_sum, error = tile_sums(problem, online=left_out != "online softmax")
    every = Costs(
        forward_bytes=requested_bytes(problem),
        chip_bytes=sum(part.bytes_of(problem) for part in FORWARD.parts),
        kept_bytes=problem.q_len * LSE_BYTES,
        backward_flops=5 * product,
        weight_sum=weight_sum,
        output_error=error,
    )
    if left_out == "fusion":
        return replace(every, forward_bytes=standard_bytes(problem))
    if left_out == "tiling":
        forward = every.forward_bytes if whole_rows_fit(problem, gpu) else standard_bytes(problem)
        return replace(every, forward_bytes=forward, chip_bytes=whole_row_bytes(problem))
    if left_out == "recomputation":
        kept = square * problem.itemsize
        forward = every.forward_bytes + kept
        return replace(every, forward_bytes=forward, kept_bytes=kept, backward_flops=4 * product)
    if left_out == "lse":
        return replace(every, kept_bytes=0, backward_flops=6 * product)
    return every


def whole_row_bytes(problem: AttentionProblem) -> int:
    """On-chip bytes of a fused kernel whose scores are not tiled along the keys: BLOCK_M whole rows of S.

    K and V still come in tiles of BLOCK_N: a matrix product can be cut there without changing its result.
    """
    tiles = {part.name: part.bytes_of(problem) for part in FORWARD.parts}
    scores = problem.block_m * problem.kv_len * FLOAT32_BYTES
    return scores + sum(tiles[name] for name in ("Q", "K", "V", "O", "m, l"))


def chip_capacity(gpu: Gpu) -> int:
    """Bytes that programs can keep on one SM: shared memory and registers."""
    return gpu.shared_bytes_per_sm + gpu.register_bytes_per_sm


def whole_rows_fit(problem: AttentionProblem, gpu: Gpu) -> bool:
    """Whether one SM can hold `whole_row_bytes`."""
    return whole_row_bytes(problem) <= chip_capacity(gpu)


def longest_whole_row(problem: AttentionProblem, gpu: Gpu) -> int:
    """Most keys for which `whole_row_bytes` still fits on one SM; 0 if the other tiles alone do not."""
    others = whole_row_bytes(problem) - problem.block_m * problem.kv_len * FLOAT32_BYTES
    return max(chip_capacity(gpu) - others, 0) // (problem.block_m * FLOAT32_BYTES)


def three_pass_bytes(problem: AttentionProblem) -> int:
    """Forward bytes of exact tiles without online softmax: K read for m, l and O."""
    key_bytes = problem.kv_len * problem.head_dim * problem.itemsize
    return requested_bytes(problem) + 2 * problem.q_tiles * key_bytes


@functools.lru_cache(maxsize=64)
def tile_sums(problem: AttentionProblem, online: bool, rows: int = 8) -> tuple[float, float]:
    """(sum of the weights of row 0, largest error of O) over the first `rows` queries, in float64.

    The key tiles are joined by the online softmax, or each is normalised alone and the results are added.
    The inputs are those of kernels.problem.inputs ("normal", before rounding) for this problem's lengths,
    head_dim and seed, one head.
    """
    rng = np.random.default_rng(problem.seed)
    shape = (problem.kv_len, problem.head_dim)
    query = rng.standard_normal((problem.q_len, problem.head_dim), dtype=np.float32)[:rows].astype(np.float64)
    key, value = (rng.standard_normal(shape, dtype=np.float32) for _ in range(2))
    scores = query @ key.T.astype(np.float64) * problem.scale
    m, l = np.full(len(query), -np.inf), np.zeros(len(query))
    output = np.zeros((len(query), problem.head_dim))
    for start in range(0, problem.kv_len, problem.block_n):
        keys = slice(start, start + problem.block_n)
        weights, m, alpha, l = join_tile(scores[:, keys], m, l, "online" if online else "own")
        output = alpha[:, None] * output + weights @ value[keys]
    exact = softmax(scores) @ value
    if online:
        weights = np.exp(scores[0] - m[0]) / l[0]
        return float(weights.sum()), float(np.abs(output / l[:, None] - exact).max())
    return float(l[0]), float(np.abs(output - exact).max())
