"""The backward pass with the key tile outside, tile by tile in NumPy, with its loads and stores counted.

Algorithms 7 and 8 of Chu, Liu and Lin 2026: dQ waits in HBM and travels at every step. One head, no mask.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass

import numpy as np

from kernels.algorithms.chip import FLOAT32_BYTES as STATE_BYTES
from kernels.lessons.ideas import first_rows
from kernels.lessons.softmax import log_sum_exp
from kernels.lessons.tiling import span, tiles_of
from kernels.problem import AttentionProblem

MOST_STEPS = 2048
MOST_FLOPS = 2e9
"""A run of at most so many steps and FLOPs takes about a second."""
FLOAT32 = ("dQ", "lse", "D")
"""What waits in HBM in float32; everything else has the type of the inputs."""


class SlowMemory:
    """Arrays by name. Loads and stores of rows are counted, inside and outside of the inner loop."""

    def __init__(self, arrays: dict[str, np.ndarray], itemsize: int) -> None:
        self.arrays = arrays
        self.in_loop = False
        self.bytes_moved = 0
        self.elements_in_loop: Counter[str] = Counter()
        self._itemsize = itemsize

    def load(self, name: str, rows: slice) -> np.ndarray:
        """A copy of these rows."""
        self._count("load", name, self.arrays[name][rows])
        return self.arrays[name][rows].copy()

    def store(self, name: str, rows: slice, values: np.ndarray) -> None:
        """Put `values` into these rows."""
        self._count("store", name, values)
        self.arrays[name][rows] = values

    def _count(self, way: str, name: str, values: np.ndarray) -> None:
        self.bytes_moved += values.size * (STATE_BYTES if name in FLOAT32 else self._itemsize)
        if self.in_loop:
            self.elements_in_loop[f"{way} {name}"] += values.size


@dataclass(frozen=True, eq=False)
class KeyOuterRun:
    """What one run moved, and the gradients that it gave."""

    bytes_moved: int
    """Over the whole pass."""
    elements_in_loop: dict[str, int]
    """Elements by what was moved, such as "load dQ": the loads and stores of the inner loop."""
    gradients: dict[str, np.ndarray]
    """dQ, dK and dV, (rows, head_dim), float64."""

    @property
    def inner_loop_elements(self) -> int:
        """All that the inner loop moved, but for lse and D, which have one number per row."""
        vectors = ("load lse", "load D")
        return sum(count for name, count in self.elements_in_loop.items() if name not in vectors)


def can_run(problem: AttentionProblem) -> bool:
    """Whether the run is short enough for a page."""
    flops = 10 * problem.q_len * problem.kv_len * problem.head_dim
    return problem.q_tiles * problem.kv_tiles <= MOST_STEPS and flops <= MOST_FLOPS


def inputs_of(problem: AttentionProblem) -> dict[str, np.ndarray]:
    """Q, K, V and dO of the problem's seed, with O and lse of the forward pass; float64, one head."""
    query, key, value = first_rows(problem, problem.q_len)
    scores = query @ key.T * problem.scale
    lse = log_sum_exp(scores)
    output = np.exp(scores - lse[:, None]) @ value
    d_output = np.random.default_rng((problem.seed, 1)).standard_normal(query.shape)
    return {"Q": query, "K": key, "V": value, "O": output, "dO": d_output, "lse": lse}


@functools.lru_cache(maxsize=8)
def key_outer_run(problem: AttentionProblem, d_each_step: bool) -> KeyOuterRun:
    """Algorithm 8, or with `d_each_step` algorithm 7, which loads O at every step to compute D again."""
    given = inputs_of(problem)
    results = {f"d{name}": np.zeros_like(given[name]) for name in ("Q", "K", "V")}
    memory = SlowMemory(given | results | {"D": np.zeros(problem.q_len)}, problem.itemsize)
    q_tiles = [span(i, problem.block_m) for i in range(tiles_of(problem.q_len, problem.block_m))]
    if not d_each_step:
        for rows in q_tiles:
            memory.store("D", rows, (memory.load("O", rows) * memory.load("dO", rows)).sum(axis=1))
    for j in range(tiles_of(problem.kv_len, problem.block_n)):
        keys = span(j, problem.block_n)
        key, value = memory.load("K", keys), memory.load("V", keys)
        d_key, d_value = np.zeros_like(key), np.zeros_like(value)
        memory.in_loop = True
        for rows in q_tiles:
            added_key, added_value = _step(memory, rows, key, value, problem.scale, d_each_step)
            d_key, d_value = d_key + added_key, d_value + added_value
        memory.in_loop = False
        memory.store("dK", keys, d_key)
        memory.store("dV", keys, d_value)
    gradients = {name: memory.arrays[name] for name in results}
    return KeyOuterRun(memory.bytes_moved, dict(memory.elements_in_loop), gradients)


def _step(
    memory: SlowMemory, rows: slice, key: np.ndarray, value: np.ndarray, scale: float, d_each_step: bool
) -> tuple[np.ndarray, np.ndarray]:
    """One step of the inner loop: what it adds to dK and dV of the key tile. dQ goes out and comes back."""
    query, d_output, lse = (memory.load(name, rows) for name in ("Q", "dO", "lse"))
    d = (memory.load("O", rows) * d_output).sum(axis=1) if d_each_step else memory.load("D", rows)
    weights = np.exp(query @ key.T * scale - lse[:, None])
    d_scores = weights * (d_output @ value.T - d[:, None])
    memory.store("dQ", rows, memory.load("dQ", rows) + scale * d_scores @ key)
    return scale * d_scores.T @ query, weights.T @ d_output
