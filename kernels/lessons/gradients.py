"""A layer of one head that is small enough to read: the numbers whose gradients Learn derives."""

import math
from dataclasses import dataclass

import numpy as np

LIMITS = {"length": (2, 8), "dim": (1, 8), "seed": (0, 9999), "spread": (0.1, 10.0)}
"""Smallest and largest value of each field of a GradientLesson that the page offers."""

WEIGHTS = ("W_Q", "W_K", "W_V", "W_O")


@dataclass(frozen=True)
class GradientLesson:
    """A layer small enough to read: `length` tokens of `dim` features, one head.

    The scores have a standard deviation of about `spread`.
    """

    length: int = 4
    dim: int = 3
    seed: int = 0
    spread: float = 1.0

    @property
    def scale(self) -> float:
        """The scores are multiplied by this: 1 / sqrt(dim)."""
        return 1.0 / math.sqrt(self.dim)

    def numbers(self) -> dict[str, np.ndarray]:
        """Z and dY (length, dim), W_Q, W_K, W_V and W_O (dim, dim): seeded normal numbers, float64."""
        rng = np.random.default_rng(self.seed)
        numbers = {"Z": rng.standard_normal((self.length, self.dim))}
        numbers |= {name: rng.standard_normal((self.dim, self.dim)) / math.sqrt(self.dim) for name in WEIGHTS}
        numbers["W_Q"] *= self.spread
        return numbers | {"dY": rng.standard_normal((self.length, self.dim))}
