"""What an algorithm, or a kernel with lanes, needs that not every machine and not every problem has."""

from collections.abc import Callable
from dataclasses import dataclass

from kernels.problem import AttentionProblem, InvalidProblem

TilesOf = Callable[[AttentionProblem], tuple[int, int]]
"""(block_m, block_n) that a kernel runs a problem with."""


@dataclass(frozen=True)
class Needs:
    """The GPU that an algorithm runs on, and the problems that it takes."""

    gpu: str
    """In words, such as "a Hopper GPU"."""
    capability: str
    """Compute capability of that GPU, such as "9.0"."""
    dtypes: tuple[str, ...]
    head_dims: range

    @property
    def gpu_words(self) -> str:
        return f"{self.gpu} (compute capability {self.capability})"


class Particular:
    """Has a label, needs, and tiles of its own; None if it runs everywhere, or with the problem's tiles."""

    label: str
    needs: Needs | None
    own_tiles: TilesOf | None
    takes_patterns: bool = False
    """Whether it takes masks and scores beyond a band."""

    def with_own_tiles(self, problem: AttentionProblem) -> AttentionProblem:
        """The problem with its own tiles, if it has such."""
        if self.own_tiles is None:
            return problem
        block_m, block_n = self.own_tiles(problem)
        return problem.with_(block_m=block_m, block_n=block_n)

    def refusal(self, problem: AttentionProblem, capability: str | None = None) -> InvalidProblem | None:
        """Why it does not take a problem, tiles included; None if it does.

        With a compute capability ("" without a GPU), on such a device; else on any.
        """
        remedy = "Choose one of these, or another algorithm."
        needs, own = self.needs, self.with_own_tiles(problem)
        if problem.pattern and not self.takes_patterns:
            asked = {"softcap": problem.softcap, "alibi": problem.alibi, "sink_logit": problem.sink_logit}
            field = "mask" if problem.mask_node else next(name for name, value in asked.items() if value)
            accepted = f"{self.label} takes the masks full, causal and window, and scores as they are"
            return InvalidProblem(field, getattr(problem, field), accepted, "Choose another algorithm.")
        if needs and problem.dtype not in needs.dtypes:
            accepted = f"{self.label} takes {' or '.join(needs.dtypes)}"
            return InvalidProblem("dtype", problem.dtype, accepted, remedy)
        if needs and problem.head_dim not in needs.head_dims:
            dims = needs.head_dims
            accepted = f"{self.label} takes a multiple of {dims.step} from {dims[0]} to {dims[-1]}"
            return InvalidProblem("head_dim", problem.head_dim, accepted, remedy)
        for name in ("block_m", "block_n"):
            if getattr(problem, name) != getattr(own, name):
                tiles = f"{own.block_m} x {own.block_n} tiles"
                accepted = f"with head_dim {problem.head_dim}, {self.label} runs with {tiles}"
                return InvalidProblem(name, getattr(problem, name), accepted, "Choose those.")
        return None if capability is None else self.missing(capability)

    def missing(self, capability: str) -> InvalidProblem | None:
        """Why it cannot run on a device of this compute capability ("" without a GPU); None if it can."""
        if self.needs is None or capability == self.needs.capability:
            return None
        here = f"this GPU has {capability}" if capability else "here kernels run in Triton's interpreter"
        remedy = "Choose another algorithm; the app replays the recorded runs of this one."
        return InvalidProblem("algorithm", self.label, f"it needs {self.needs.gpu_words}, and {here}", remedy)
