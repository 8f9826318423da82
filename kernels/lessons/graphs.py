"""The graph of an attention layer with the size of what flows along each edge, and the graphs for T = 2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels.lessons.gradients import GradientLesson, derived
from kernels.problem import AttentionProblem

EDGES = (
    ("Z", "Q"),
    ("Z", "K"),
    ("Z", "V"),
    ("Q", "S"),
    ("K", "S"),
    ("S", "P"),
    ("P", "O"),
    ("V", "O"),
    ("O", "Z_out"),
)
"""Chu, Liu and Lin 2026, figure 1. What flows along an edge is the tensor at its start."""
SQUARE = ("S", "P")


@dataclass(frozen=True)
class Flow:
    """What flows along an edge: forward the tensor `source`, backward its gradient, of the same size."""

    source: str
    target: str
    shape: tuple[int, int]
    bytes: int
    stays_on_chip: bool
    """Whether FlashAttention keeps it on the chip in both passes."""


def layer_flows(problem: AttentionProblem) -> tuple[Flow, ...]:
    """The edges of a layer of one head on the problem's lengths (T queries and T keys) and head_dim."""
    flows = []
    for source, target in EDGES:
        square = source in SQUARE
        rows = problem.kv_len if source in ("K", "V") else problem.q_len
        shape = (rows, problem.kv_len if square else problem.head_dim)
        flows.append(Flow(source, target, shape, shape[0] * shape[1] * problem.itemsize, square))
    return tuple(flows)


def two_tokens(seed: int, spread: float) -> dict[str, np.ndarray]:
    """All lines of the derivation for T = 2 and d = 1 (Chu, Liu and Lin 2026, eq 14 and 19)."""
    return derived(GradientLesson(length=2, dim=1, seed=seed, spread=spread))
