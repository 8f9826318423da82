"""What is asked: the attention problem and its validation, presets, seeded inputs, tiles. Imports neither torch nor triton."""

from kernels.problem.attention_problem import (
    BLOCKS,
    DTYPES,
    INPUTS,
    LIMITS,
    MASKS,
    AttentionProblem,
    InvalidProblem,
)

__all__ = ["BLOCKS", "DTYPES", "INPUTS", "LIMITS", "MASKS", "AttentionProblem", "InvalidProblem"]
