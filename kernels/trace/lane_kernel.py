"""A kernel whose lanes can be shown: where it runs, with which tiles, and what its lanes do.

Importing this file imports neither torch nor triton.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels.trace.lanes import LaneRole
from kernels.trace.needs import Needs, Particular, TilesOf


@dataclass(frozen=True)
class LaneKernel(Particular):
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
    own_tiles: TilesOf | None = None
    """Its own tiles; None if they are those of the problem."""
    as_played: bool = False
    """Whether its lanes of the presets are recorded with the presets' own tiles, as its runs are."""

    @property
    def launches(self) -> int:
        """How many kernels are launched one after the other."""
        return len({role.kernel for role in self.roles})

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
