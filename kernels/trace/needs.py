"""What an algorithm needs that not every machine, and not every problem, has."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.problem import AttentionProblem, InvalidProblem


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
        """The GPU, with its compute capability."""
        return f"{self.gpu} (compute capability {self.capability})"

    @property
    def _dtype_words(self) -> str:
        return " or ".join(self.dtypes)

    @property
    def _head_dim_words(self) -> str:
        return f"a multiple of {self.head_dims.step} from {self.head_dims[0]} to {self.head_dims[-1]}"

    def refusal(self, label: str, problem: AttentionProblem) -> InvalidProblem | None:
        """Why the algorithm of that label does not take a problem, whatever the machine; None if it does."""
        if problem.dtype not in self.dtypes:
            remedy = "Choose one of these, or another algorithm."
            return InvalidProblem("dtype", problem.dtype, f"{label} takes {self._dtype_words}", remedy)
        if problem.head_dim not in self.head_dims:
            accepted = f"the head_dim of {label} is {self._head_dim_words}"
            return InvalidProblem(
                "head_dim", problem.head_dim, accepted, "Choose such a head_dim, or another algorithm."
            )
        return None

    def missing(self, label: str, capability: str) -> InvalidProblem | None:
        """Why it cannot run on a device of this compute capability ("" without a GPU); None if it can."""
        if capability == self.capability:
            return None
        here = f"this GPU has {capability}" if capability else "here kernels run in Triton's interpreter"
        remedy = "Choose another algorithm; the app replays the recorded runs of this one."
        return InvalidProblem("algorithm", label, f"it needs {self.gpu_words}, and {here}", remedy)
