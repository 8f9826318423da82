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


def why_wrong_parts(trace: Trace, algorithm: Algorithm) -> str:
    """How the steps contradict the programs that they are said to be of, in words; "" if they do not."""
    parts = parts_of(trace, algorithm)
    if parts is None:
        return ""
    programs, first = np.unique(trace.program[parts.combines], return_index=True)
    if not np.array_equal(trace.program[parts.combines], np.repeat(programs, parts.count)):
        return "its programs do not combine equally many parts of the keys, one after the other"
    made = np.unique(trace.program[parts.splits])
    wanted = programs.astype(np.int64)[:, None] * parts.count + np.arange(parts.count)
    if not np.array_equal(made, wanted.ravel()):
        return f"the programs that split the keys are not those of the {parts.count} parts that are combined"
    of = np.searchsorted(programs, trace.program[parts.splits] // parts.count)
    for place in (trace.batch_head, trace.q_tile):
        own = place[parts.combines]
        if (own != np.repeat(own[first], parts.count)).any() or (place[parts.splits] != own[first][of]).any():
            return "the parts of one program have several heads or query tiles"
    return ""
