"""Three ways to approximate attention, in NumPy float64, beside exact attention: their work and their error.

Each looks at `size` keys, key groups or random features for each query instead of at all keys. Their models
are trained with the approximation; here it replaces attention on given numbers.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from kernels.lessons.ideas import ROWS, first_rows
from kernels.lessons.softmax import softmax
from kernels.problem import AttentionProblem

CHUNK = 4096
"""Keys whose random features are in memory at once."""


@dataclass(frozen=True)
class Approximation:
    """One method on one head: the FLOPs of its products, modelled, and its largest error of O, measured."""

    name: str
    source: str
    idea: str
    flops: int
    error: float


@functools.lru_cache(maxsize=16)
def approximations(problem: AttentionProblem, size: int) -> tuple[Approximation, ...]:
    """The three methods on the first rows of the problem's inputs, one head without a mask."""
    query, key, value = first_rows(problem, ROWS)
    exact = softmax(query @ key.T * problem.scale) @ value
    features, size = size, min(size, problem.kv_len)
    queries, keys, d = problem.q_len, problem.kv_len, problem.head_dim
    ways = (
        (
            "Linformer",
            "Wang et al. 2020",
            f"means of {size:,} groups of keys",
            4 * queries * size * d + 2 * keys * d,
            _grouped(query, key, value, problem.scale, size),
        ),
        (
            "Performer",
            "Choromanski et al. 2021",
            f"{features:,} random features instead of exponentials",
            4 * (queries + keys) * features * d,
            _random_features(query, key, value, problem.scale, features),
        ),
        (
            "Longformer",
            "Beltagy, Peters and Cohan 2020",
            f"the {size:,} keys nearest to the query",
            4 * queries * size * d,
            _window(query, key, value, problem.scale, size),
        ),
    )
    return tuple(
        Approximation(name, source, idea, flops, float(np.abs(output - exact).max()))
        for name, source, idea, flops, output in ways
    )


def _grouped(query: np.ndarray, key: np.ndarray, value: np.ndarray, scale: float, size: int) -> np.ndarray:
    """Keys and values averaged in `size` groups of neighbours, instead of a learned projection."""
    starts = np.linspace(0, len(key), size, endpoint=False).astype(int)
    counts = np.diff(np.append(starts, len(key)))[:, None]
    grouped_key, grouped_value = (np.add.reduceat(array, starts) / counts for array in (key, value))
    return softmax(query @ grouped_key.T * scale) @ grouped_value


def _random_features(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, scale: float, size: int
) -> np.ndarray:
    """exp(q k) as the mean of positive random features of q times those of k."""
    directions = np.random.default_rng(0).standard_normal((query.shape[1], size))
    numerator, denominator = np.zeros((len(query), value.shape[1])), np.zeros(len(query))
    of_query = _features(query * np.sqrt(scale), directions)
    for start in range(0, len(key), CHUNK):
        part = slice(start, start + CHUNK)
        weights = of_query @ _features(key[part] * np.sqrt(scale), directions).T
        numerator += weights @ value[part]
        denominator += weights.sum(axis=1)
    return numerator / denominator[:, None]


def _features(x: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Positive features (rows, size) of x (rows, d): Choromanski et al. 2021, lemma 1."""
    return np.exp(x @ directions - (x**2).sum(axis=1, keepdims=True) / 2)


def _window(query: np.ndarray, key: np.ndarray, value: np.ndarray, scale: float, size: int) -> np.ndarray:
    """Each query sees `size` keys around its own position."""
    rows = []
    for position, row in enumerate(query):
        start = min(max(position - size // 2, 0), len(key) - size)
        seen = slice(start, start + size)
        rows.append(softmax(row @ key[seen].T * scale) @ value[seen])
    return np.stack(rows)
