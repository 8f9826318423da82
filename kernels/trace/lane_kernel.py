"""A kernel whose lanes can be shown: where it runs, with which tiles, and what its lanes do.

Importing this file imports neither torch nor triton.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernels.problem import AttentionProblem, InvalidProblem
from kernels.trace.lanes import LaneRole
from kernels.trace.needs import Needs

TilesOf = Callable[[AttentionProblem], tuple[int, int]]
"""(block_m, block_n) that a kernel runs a problem with."""


def with_tiles_of(problem: AttentionProblem, tiles_of: TilesOf | None) -> AttentionProblem:
    """The problem with those tiles; as it is if there are none."""
    if tiles_of is None:
        return problem
    block_m, block_n = tiles_of(problem)
    return problem.with_(block_m=block_m, block_n=block_n)


@dataclass(frozen=True)
class LaneKernel:
    """A kernel that sets marks, or several of one algorithm that are launched one after the other."""

    name: str
    """In requests, and in files of lanes and their names. No two have the same."""
    label: str
    module: str
    """Module with `run_lanes(problem)`, which a GPU runs."""
    roles: tuple[LaneRole, ...]
    """What its lanes can do. An activity of the same name belongs to one phase in all of them."""
    words: str = ""
    """What a reader has to know of it beside the run that is played."""
    needs: Needs | None = None
    """What it needs of the machine and the problem; None if it runs on every GPU and takes every problem."""
    tiles: TilesOf | None = None
    """Its own tiles; None if they are those of the problem."""
    as_played: bool = False
    """Whether its lanes of the presets are recorded with the presets' own tiles, as its runs are."""

    @property
    def launches(self) -> int:
        """How many kernels are launched one after the other."""
        return len({role.kernel for role in self.roles})

    def with_own_tiles(self, problem: AttentionProblem) -> AttentionProblem:
        """The problem with its own tiles, if it has such."""
        return with_tiles_of(problem, self.tiles)

    def takes(self, problem: AttentionProblem) -> bool:
        """Whether it takes the problem, tiles included, on some GPU."""
        return self._not_taken(problem) is None

    def refusal(self, problem: AttentionProblem, capability: str) -> InvalidProblem | None:
        """Why it cannot run the problem on a GPU of this compute capability; None if it can."""
        return self._not_taken(problem) or self.missing(capability)

    def _not_taken(self, problem: AttentionProblem) -> InvalidProblem | None:
        if self.needs and (refused := self.needs.refusal(self.label, problem)):
            return refused
        own = self.with_own_tiles(problem)
        if own == problem:
            return None
        given = f"{problem.block_m} x {problem.block_n}"
        accepted = f"lanes of {self.label} are those of {own.block_m} x {own.block_n} tiles"
        return InvalidProblem("tiles", given, accepted, "Choose those.")

    def missing(self, capability: str) -> InvalidProblem | None:
        """Why it cannot run on a GPU of this compute capability, whatever the problem; None if it can."""
        return self.needs.missing(self.label, capability) if self.needs else None

    def phase_of(self, activity: str) -> str:
        """The phase that an activity belongs to; "" if no role has it."""
        return next((each.phase for role in self._roles_with(activity) for each in role.named(activity)), "")

    def kernel_of(self, activity: str) -> str:
        """Name of the kernel that has that phase; "" if it is any kernel that is played, or not known."""
        return next((role.kernel for role in self._roles_with(activity)), "")

    def _roles_with(self, activity: str) -> list[LaneRole]:
        return [role for role in self.roles if role.named(activity)]

    def role_of(self, lane: int, label: str) -> LaneRole | None:
        """The first role that the lane of this number, from 0 on, can have by its label."""
        return next((role for role in self.roles if role.label.format(lane + 1) == label), None)
