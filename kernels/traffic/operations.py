"""Bytes that naive attention asks for, counted operation by operation from the tensors each one reads and writes.

The operations run on torch's meta device: shapes and types without data, so that any length takes milliseconds and no memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels.problem import AttentionProblem

if TYPE_CHECKING:
    import torch

NEVER_MOVES = ("empty_like", "_unsafe_view", "new_empty")
"""Operations that launch nothing, beside those that torch marks as views."""


@dataclass(frozen=True)
class Operation:
    """One operation: its name in torch, the bytes of the tensors it reads and of those it writes, and what it wrote."""

    name: str
    bytes_read: int
    bytes_written: int
    shape: str
    """Shape of the result: "16x4096x4096"."""

    @property
    def bytes_moved(self) -> int:
        """Bytes read and written."""
        return self.bytes_read + self.bytes_written


def count_operations(problem: AttentionProblem, direction: str = "forward") -> tuple[Operation, ...]:
    """The operations of `naive_attention` on the problem; for "backward" those of its backward pass alone."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    from kernels.oracle.naive import naive_attention

    counted: list[Operation] = []

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            name = func._schema.name.removeprefix("aten::")
            if not func.is_view and name not in NEVER_MOVES:
                counted.append(_operation(name, args, result))
            return result

    dtype = getattr(torch, problem.dtype)
    shapes = (problem.q_shape, problem.kv_shape, problem.kv_shape)
    inputs = [torch.empty(shape, dtype=dtype, device="meta", requires_grad=True) for shape in shapes]
    with Count():
        out = naive_attention(*inputs, scale=problem.scale, band=problem.band)
        if direction == "backward":
            counted.clear()
            torch.autograd.grad(out, inputs, torch.empty_like(out))
    return tuple(counted)


def _operation(name: str, args: tuple, result: torch.Tensor) -> Operation:
    import torch

    read = sum(_bytes(tensor) for tensor in args if isinstance(tensor, torch.Tensor))
    return Operation(name, read, _bytes(result), "x".join(map(str, result.shape)))


def _bytes(tensor: torch.Tensor) -> int:
    """Bytes of the elements that differ: a dimension of stride 0 is one element repeated."""
    elements = math.prod(size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
    return elements * tensor.element_size()
