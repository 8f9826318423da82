"""Two ideas of FlashAttention-4 in NumPy: rescale only if the max grew a lot, and exponentials by polynomial.

Zadouri et al. 2026, "conditional softmax rescaling" and "software-emulated exponential".
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from kernels.lessons.softmax import softmax
from kernels.problem import AttentionProblem
from kernels.problem.inputs import draw_inputs

LOG2E = math.log2(math.e)
THRESHOLDS = (0, 1, 2, 4, 8, 16)
"""In powers of two. FlashAttention-4 uses 8 for 16-bit inputs (its flash_attn/cute/flash_fwd_sm100.py)."""

ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-9}
"""Largest relative error of rounding to the format."""
SAMPLES = 2001


@dataclass(frozen=True)
class LateRescale:
    """What a threshold did over all rows and all tiles except each row's first."""

    threshold: float
    rescales: int
    row_steps: int
    """Row-tile pairs at which a kernel that always rescales would have rescaled."""
    largest_weight: float
    """Largest exp(score - kept max): 1 with threshold 0, else up to 2^threshold."""
    largest_error: float
    """Of the output against softmax in float64."""


@functools.lru_cache(maxsize=16)
def _inputs(problem: AttentionProblem) -> tuple[np.ndarray, np.ndarray]:
    """Scores (q_len, kv_len) in powers of two, and values (kv_len, head_dim), of head 0."""
    query, key, value = (array[0, 0].astype(np.float64) for array in draw_inputs(problem))
    return query @ key.T * problem.scale * LOG2E, value


@functools.lru_cache(maxsize=64)
def late_rescale(problem: AttentionProblem, threshold: float) -> LateRescale:
    """Online softmax over key tiles that keeps its old max until a score exceeds it by more than `threshold`.

    `threshold` in powers of two. Head 0 of the problem, without a mask.
    """
    scores, values = _inputs(problem)
    kept = np.full(problem.q_len, -np.inf)
    total, acc = np.zeros(problem.q_len), np.zeros((problem.q_len, problem.head_dim))
    rescales, largest = 0, 0.0
    for first in range(0, problem.kv_len, problem.block_n):
        tile = scores[:, first : first + problem.block_n]
        grown = np.maximum(kept, tile.max(axis=1))
        new = np.where(grown - kept > threshold, grown, kept)
        alpha = np.exp2(kept - new)
        rescales += int((new > kept).sum()) if first else 0
        weights = np.exp2(tile - new[:, None])
        largest = max(largest, float(weights.max()))
        total = alpha * total + weights.sum(axis=1)
        acc = alpha[:, None] * acc + weights @ values[first : first + problem.block_n]
        kept = new
    exact = softmax(scores / LOG2E) @ values
    error = float(np.abs(acc / total[:, None] - exact).max())
    return LateRescale(threshold, rescales, problem.q_len * (problem.kv_tiles - 1), largest, error)


@functools.lru_cache(maxsize=16)
def exp2_polynomial(degree: int) -> np.ndarray:
    """Coefficients, lowest first, of a polynomial close to 2^x on [0, 1).

    Least squares of the relative error at Chebyshev nodes. exp2(x) is then 2^floor(x), which only changes the
    exponent, times the polynomial of x - floor(x), which needs only additions and multiplications.
    """
    nodes = (1 - np.cos(np.pi * (np.arange(256) + 0.5) / 256)) / 2
    return np.polynomial.polynomial.polyfit(nodes, np.exp2(nodes), degree, w=np.exp2(-nodes))


def exp2_errors(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """(x on [0, 1], relative error of the polynomial there), each (SAMPLES,)."""
    x = np.linspace(0.0, 1.0, SAMPLES)
    return x, np.polynomial.polynomial.polyval(x, exp2_polynomial(degree)) / np.exp2(x) - 1
