"""Tells memory that nobody has written from memory that somebody has, by a bit pattern.

New memory is filled with a NaN whose payload no arithmetic of fresh numbers gives. As long as an element has
these bits, nobody has written it: neither a kernel, nor torch, nor NumPy.
"""

import ctypes
from typing import Any

import numpy as np
import torch

from kernels.device.dispatch import DispatchMode

PATTERNS = {2: 0x7FDB, 4: 0x7FDB5A3C, 8: 0x7FFB5A3C7FDB5A3C}
"""Bits of unwritten elements by their size in bytes: a quiet NaN in every float type, a large integer.
Elements of one byte have too few bits to be told apart."""

_MAKERS = {
    f"aten::{name}" for name in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
}


class FillFresh(DispatchMode):
    """Fills what torch.empty and its like return, on the CPU. torch.compile works as without it."""

    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        made = func(*args, **(kwargs or {}))
        named = isinstance(func, torch._ops.OpOverload) and func._schema.name  # FlexAttention's has none
        if named in _MAKERS and isinstance(made, torch.Tensor) and made.is_cpu:
            storage = made.untyped_storage()
            if made.element_size() in PATTERNS and storage.nbytes():
                elements_of(storage, made.element_size())[:] = PATTERNS[made.element_size()]
        return made


def elements_of(storage: torch.UntypedStorage, itemsize: int) -> np.ndarray:
    """The memory of a storage as unsigned integers of `itemsize` bytes, without a copy."""
    count = storage.nbytes() // itemsize
    memory = (ctypes.c_uint8 * (count * itemsize)).from_address(storage.data_ptr())
    return np.ndarray((count,), np.dtype(f"u{itemsize}"), memory)  # type: ignore[arg-type]  # ctypes arrays are buffers


def unwritten(elements: np.ndarray) -> np.ndarray | None:
    """bool, one per element: which of them nobody has written; None if all are written."""
    if elements.itemsize not in PATTERNS:
        return None
    fresh = elements == elements.dtype.type(PATTERNS[elements.itemsize])
    return fresh if fresh.any() else None
