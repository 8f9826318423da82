"""Why memory is the problem: sizes of S beside those of Q, K, V, O and of the memories. Modelled."""

from __future__ import annotations

import math

from kernels.device.gpus import Gpu
from kernels.problem import AttentionProblem

ALL, PART, SPECK = "all of S", "more than a hundredth of S", "less than a hundredth of S"


def scores_bytes(problem: AttentionProblem) -> int:
    """S of one head: q_len x kv_len numbers of the inputs' type."""
    return problem.q_len * problem.kv_len * problem.itemsize


def matrix_bytes(problem: AttentionProblem) -> int:
    """One of Q and O: q_len x head_dim numbers."""
    return problem.q_len * problem.head_dim * problem.itemsize


def share_in_sram(problem: AttentionProblem, gpu: Gpu) -> float:
    """The part of S that fits into the shared memory of one SM; more than 1 if there is room to spare."""
    return gpu.shared_bytes_per_sm / scores_bytes(problem)


def share_words(share: float) -> str:
    """One of ALL, PART and SPECK."""
    return ALL if share >= 1 else PART if share >= 0.01 else SPECK


def square_side(size: float, largest: float, side: float) -> float:
    """Side of a square whose area is to `size` as that of a square of `side` is to `largest`."""
    return side * math.sqrt(size / largest)
