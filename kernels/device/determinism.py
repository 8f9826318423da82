"""Whether every call has to give the same bits."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

_fills_alone = False
_set_same_bits: Any = torch._C._set_deterministic_algorithms
"""Its public name loads torch.compile too, to set it likewise: two seconds of a processor."""


def wants_same_bits() -> bool:
    """Whether torch was asked for deterministic algorithms, and not only by `filled_memory`."""
    return torch.are_deterministic_algorithms_enabled() and not _fills_alone


@contextlib.contextmanager
def filled_memory() -> Iterator[None]:
    """Fill new tensors with NaN while the body runs, so that elements that no kernel wrote are noticed.

    Torch does so under deterministic algorithms alone. Our kernels are chosen as they would be without them.
    For one thread at a time.
    """
    global _fills_alone
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        _fills_alone,
    )
    deterministic: Any = torch.utils.deterministic  # mypy does not know the properties of this module
    filled = deterministic.fill_uninitialized_memory
    _fills_alone = not before[0] or before[2]
    _set_same_bits(True, warn_only=True)
    deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        _fills_alone = before[2]
        _set_same_bits(before[0], warn_only=before[1])
        deterministic.fill_uninitialized_memory = filled
