"""Parts of the keys: which steps of a trace make each of them, and which combine it. Pure NumPy.

A kernel that splits the keys numbers its programs by their part first: of so many parts, program p of the
combining kernel takes the results of the programs p * parts to (p + 1) * parts - 1, one in each of its steps.
"""

from dataclasses import dataclass

import numpy as np

from kernels.trace.algorithm import Algorithm
from kernels.trace.trace import Trace


@dataclass(frozen=True, eq=False)
class KeyParts:
    """The parts of a trace: their number, and indices of steps with the part of each."""

    count: int
    splits: np.ndarray
    split_part: np.ndarray
    combines: np.ndarray
    combined_part: np.ndarray


def parts_of(trace: Trace, algorithm: Algorithm) -> KeyParts | None:
    """The parts of the keys; None if no step combines any."""
    combines, splits = (
        np.flatnonzero(np.array([getattr(kernel, name) for kernel in algorithm.kernels])[trace.kernel])
        for name in ("combines_parts", "splits_keys")
    )
    if not len(combines):
        return None
    count = len(combines) // len(np.unique(trace.program[combines]))
    return KeyParts(count, splits, trace.program[splits] % count, combines, np.arange(len(combines)) % count)
