"""How far a result is from the exact one. Needs neither torch nor triton."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ErrorReport:
    """Errors against float64, and FlashAttention's rule: at most twice the error of naive attention in the same type."""

    max_error: float
    mean_error: float
    naive_max_error: float
    """The same for naive attention computed in the type of the inputs."""
    tolerance: float
    """2 * naive_max_error, plus twice the rounding of values of this size."""

    @property
    def passes(self) -> bool:
        """Whether the largest error is allowed; NaN is not."""
        return self.max_error <= self.tolerance
