"""What is asked: the attention problem and its validation, the mask, tiles, presets, seeded inputs."""

from kernels.problem.attention_problem import BLOCKS, DTYPES, INPUTS, LIMITS, MASKS, AttentionProblem
from kernels.problem.band import Band
from kernels.problem.invalid import InvalidProblem
from kernels.problem.pattern import Pattern, Rule

__all__ = [
    "BLOCKS",
    "DTYPES",
    "INPUTS",
    "LIMITS",
    "MASKS",
    "AttentionProblem",
    "Band",
    "InvalidProblem",
    "Pattern",
    "Rule",
]
