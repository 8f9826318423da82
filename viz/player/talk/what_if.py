"""What a speaker may change of a scene's problem during the talk: length, head_dim, mask and tiles. Pure."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from kernels.algorithms import ALGORITHMS
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.attention_problem import MASKS
from kernels.trace.trace import READABLE_BLOCK, READABLE_HEAD_DIM
from viz.shared.run_request import RunRequest, own_tiles

Whole = Annotated[list[int], Meta(max_length=9)]


class Live(msgspec.Struct, forbid_unknown_fields=True):
    """What may be changed, as a talk's file gives it. Each value is named by one digit."""

    length: Whole = []
    head_dim: Whole = []
    mask: Annotated[list[str], Meta(max_length=9)] = []
    tiles: Annotated[list[tuple[int, int]], Meta(max_length=9)] = []


Value = int | str | tuple[int, int]
Runs = tuple[RunRequest, RunRequest | None]
"""The run of a scene, and the one beside it if there is one."""


@dataclass(frozen=True)
class Choice:
    """One thing that may be changed, and its values."""

    name: str
    values: tuple[Value, ...]

    def changes(self, problem: AttentionProblem, index: int) -> dict:
        """The fields that one of the values changes. One query that meets many keys stays one query."""
        value = self.values[index]
        if isinstance(value, tuple):
            return dict(zip(("block_m", "block_n"), value, strict=True))
        if self.name == "length":
            return {"kv_len": value} | ({"q_len": value} if problem.q_len == problem.kv_len else {})
        return {self.name: value}

    @property
    def words(self) -> list[str]:
        """The values as they are shown: "1,024", "causal", "64 × 32"."""
        formats = {tuple: "{0[0]} × {0[1]}", int: "{:,}", str: "{}"}
        return [formats[type(value)].format(value) for value in self.values]

    def present(self, problem: AttentionProblem) -> int:
        """Which value the problem has; -1 for another."""
        same = [problem.with_(**self.changes(problem, i)) == problem for i in range(len(self.values))]
        return same.index(True) if True in same else -1


def good_values(problem: AttentionProblem, in_numbers: bool) -> Live:
    """Values around a problem; `in_numbers`: of a tile that is shown in its numbers, which is small."""
    length, widest = problem.kv_len, READABLE_HEAD_DIM if in_numbers else 128
    sides = (4, 8, READABLE_BLOCK) if in_numbers else (16, 32, 64, 128)
    return Live(
        sorted({max(1, length // 4), max(1, length // 2), length, 2 * length}),
        [width for width in (16, 32, 64, 128) if width <= widest],
        [mask for mask in MASKS if mask not in ("documents", "expression") or mask == problem.mask],
        [(side, min(side, 64)) for side in sides],
    )


def choices_of(given: Live, runs: Runs, strict: bool = True) -> tuple[Choice, ...]:
    """The choices with those values that both runs take, each picked alone.

    If `strict`, raises InvalidProblem for a value that one of the runs does not take.
    """
    choices = []
    for name in given.__struct_fields__:
        offered, taken = Choice(name, tuple(getattr(given, name))), []
        for index, value in enumerate(offered.values):
            with contextlib.nullcontext() if strict else contextlib.suppress(InvalidProblem):
                changed(runs, (offered,), {name: index})
                taken.append(value)
        choices += [Choice(name, tuple(taken))] if taken else []
    return tuple(choices)


def changed(runs: Runs, choices: tuple[Choice, ...], picks: Mapping[str, int]) -> Runs:
    """Both runs with the picked values, {name of a choice: number of its value}.

    If no tiles are picked, an algorithm with tiles of its own has those of the changed problem. Raises
    InvalidProblem for a problem that its algorithm does not take, and for a pick that is none of the choices.
    """
    first, second = (run and RunRequest(_with_picks(run[0], choices, picks), run[1]) for run in runs)
    assert first
    if "tiles" not in picks:
        first, second, _ = own_tiles(first, second)
    for problem, algorithm in filter(None, (first, second)):
        if refused := ALGORITHMS[algorithm].refusal(problem):
            raise refused
    return first, second


def _with_picks(
    problem: AttentionProblem, choices: tuple[Choice, ...], picks: Mapping[str, int]
) -> AttentionProblem:
    fields: dict = {}
    named = {choice.name: choice for choice in choices}
    for name, index in picks.items():
        choice = named.get(name)
        if choice is None or type(index) is not int or not 0 <= index < len(choice.values):
            accepted = f"expected the number of a value of {', '.join(named)}"
            raise InvalidProblem("live", f"{name}: {index}", accepted)
        fields |= choice.changes(problem, index)
    return problem.with_(**fields)
