"""A run that is asked for, and the tiles that its algorithm makes of it."""

from __future__ import annotations

from typing import NamedTuple

from kernels.algorithms import ALGORITHMS
from kernels.problem import AttentionProblem

Pair = tuple[AttentionProblem, str]
"""A RunRequest, or another tuple of a problem and the name of an algorithm."""


class RunRequest(NamedTuple):
    """Which run is asked for."""

    problem: AttentionProblem
    algorithm: str
    """Its name in ALGORITHMS."""


class OwnTiles(NamedTuple):
    """The runs as their algorithms make them, and sentences about tiles that are not the chosen ones."""

    first: RunRequest
    second: RunRequest | None
    words: tuple[str, ...]


def own_tiles(first: Pair, second: Pair | None) -> OwnTiles:
    """The run that was asked for and the one beside it, each with its algorithm's own tiles.

    If both were chosen with the same tiles and one algorithm has its own, the other one runs with these too.
    """
    asked = [RunRequest(*pair) for pair in (first, second) if pair is not None]
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
            own[other] = own[other]._replace(
                problem=own[other].problem.with_(block_m=block_m, block_n=block_n)
            )
            words.append("The run beside it has the same tiles.")
    return OwnTiles(own[0], own[1] if second else None, tuple(dict.fromkeys(words)))


def _tiles(run: RunRequest) -> tuple[int, int]:
    return run.problem.block_m, run.problem.block_n
