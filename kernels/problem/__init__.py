"""What is asked: the attention problem and its validation, the mask, tiles, presets, seeded inputs."""

from kernels.problem.attention_problem import (
    BLOCKS,
    DTYPES,
    INPUTS,
    LIMITS,
    MASKS,
    AttentionProblem,
    InvalidProblem,
)
from kernels.problem.band import Band

__all__ = ["BLOCKS", "DTYPES", "INPUTS", "LIMITS", "MASKS", "AttentionProblem", "Band", "InvalidProblem"]
