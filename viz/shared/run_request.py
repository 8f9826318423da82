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
    """Both runs with their algorithms' own tiles, and sentences about tiles that are not the chosen ones.

    If both were chosen with the same tiles and one algorithm has its own, the other one runs with these too.
    """
    asked = [run for run in (first, second) if run is not None]
    own = [RunRequest(ALGORITHMS[name].with_own_tiles(problem), name) for problem, name in asked]
    words = [
        f"**{ALGORITHMS[name].label} runs with its own tiles, {problem.block_m} × {problem.block_n}**, "
        "not the chosen ones."
        for (problem, name), (chosen, _) in zip(own, asked, strict=True)
        if problem != chosen and ALGORITHMS[name].refusal(problem) is None  # else it does not run at all
    ]
    leads = [ALGORITHMS[run.algorithm].own_tiles is not None for run in own]
    if sorted(leads) == [False, True] and len({_tiles(run) for run in asked}) == 1:
        leader, other = leads.index(True), leads.index(False)
        block_m, block_n = _tiles(own[leader])
        if _tiles(own[other]) != (block_m, block_n):
            problem, name = own[other]
            own[other] = RunRequest(problem.with_(block_m=block_m, block_n=block_n), name)
            words.append("The run beside it has the same tiles.")
    return own[0], own[1] if second else None, tuple(dict.fromkeys(words))


def _tiles(run: RunRequest) -> tuple[int, int]:
    return run.problem.block_m, run.problem.block_n
