"""Algorithms that run with their own tiles: what two runs are about, and what a page says of that."""

from __future__ import annotations

from typing import NamedTuple

from kernels.algorithms import ALGORITHMS
from kernels.problem import AttentionProblem

Wanted = tuple[AttentionProblem, str]
"""A problem, and the name of the algorithm that runs it."""


class OwnTiles(NamedTuple):
    """The runs as their algorithms make them, and sentences about tiles that are not the chosen ones."""

    first: Wanted
    second: Wanted | None
    words: tuple[str, ...]


def own_tiles(first: Wanted, second: Wanted | None) -> OwnTiles:
    """The run that was asked for and the one beside it, each with its algorithm's own tiles.

    If both were chosen with the same tiles and one algorithm has its own, the other one runs with these too.
    """
    wanted = [first] if second is None else [first, second]
    own = [ALGORITHMS[name].with_own_tiles(problem) for problem, name in wanted]
    words = [
        _words(problem, mine, name)
        for (problem, name), mine in zip(wanted, own, strict=True)
        if mine != problem and ALGORITHMS[name].refusal(mine) is None  # else it does not run at all
    ]
    if second is not None and _tiles(first[0]) == _tiles(second[0]):
        for one, other in ((0, 1), (1, 0)):
            alone = ALGORITHMS[wanted[one][1]].own_tiles and not ALGORITHMS[wanted[other][1]].own_tiles
            if alone and _tiles(own[one]) != _tiles(own[other]):
                own[other] = own[other].with_(block_m=own[one].block_m, block_n=own[one].block_n)
                words.append(f"{ALGORITHMS[wanted[other][1]].label} beside it runs with the same tiles.")
    runs = [(problem, name) for problem, (_, name) in zip(own, wanted, strict=True)]
    return OwnTiles(runs[0], runs[1] if second else None, tuple(dict.fromkeys(words)))


def _tiles(problem: AttentionProblem) -> tuple[int, int]:
    return problem.block_m, problem.block_n


def _words(chosen: AttentionProblem, own: AttentionProblem, name: str) -> str:
    mine, yours = (f"{problem.block_m} × {problem.block_n}" for problem in (own, chosen))
    label = ALGORITHMS[name].label
    return f"**{label} runs with its own tiles, {mine}.** Yours, {yours}, are kept for the other algorithms."
