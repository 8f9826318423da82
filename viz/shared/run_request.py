"""A run that is asked for, and the tiles that its algorithm makes of it."""

from typing import NamedTuple

from kernels.algorithms import ALGORITHMS
from kernels.problem import AttentionProblem


class RunRequest(NamedTuple):
    problem: AttentionProblem
    algorithm: str


def own_tiles(
    first: RunRequest, second: RunRequest | None
) -> tuple[RunRequest, RunRequest | None, tuple[str, ...]]:
    """Both runs with their algorithms' own tiles, and sentences about tiles that are not the chosen ones."""
    asked = [run for run in (first, second) if run is not None]
    own = [RunRequest(ALGORITHMS[name].with_own_tiles(problem), name) for problem, name in asked]
    words = [
        f"**{ALGORITHMS[name].label} runs with its own tiles, {problem.block_m} × {problem.block_n}**, "
        "not the chosen ones."
        for (problem, name), (chosen, _) in zip(own, asked, strict=True)
        if problem != chosen and ALGORITHMS[name].refusal(problem) is None  # else it does not run at all
    ]
    return own[0], own[1] if second else None, tuple(dict.fromkeys(words))
