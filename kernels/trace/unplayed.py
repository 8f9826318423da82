"""A kernel whose lanes stand beside a run of other kernels."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.problem import AttentionProblem, InvalidProblem
from kernels.trace.needs import Needs


@dataclass(frozen=True)
class UnplayedKernel:
    """A kernel that does the work of an algorithm and sets marks, but is not one that is played."""

    label: str
    words: str
    """What it does, and what is played in its place."""
    needs: Needs

    def refusal(self, problem: AttentionProblem, capability: str) -> InvalidProblem | None:
        """Why it cannot run the problem on a device of this compute capability; None if it can."""
        return self.needs.refusal(self.label, problem) or self.needs.missing(self.label, capability)
