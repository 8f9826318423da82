"""Requested bytes of standard attention in torch: the tensors that each operation reads and writes.

The operations run on torch's meta device, which has shapes and types but no data. So any length takes
milliseconds and no memory.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels.file_format import Count
from kernels.problem import AttentionProblem

if TYPE_CHECKING:
    import torch
    from torch._ops import OpOverload

LAUNCH_NOTHING = ("empty_like", "_unsafe_view", "new_empty")
"""Operations that launch no kernel, in addition to those that torch marks as views."""


@dataclass(frozen=True)
class Operation:
    """One torch operation or one kernel, and the bytes that it requests."""

    name: str
    bytes_read: Count
    bytes_written: Count
    shape: str
    """Shape of the result of an operation: "16x4096x4096"; tiles of a kernel: "64x128 tiles"."""

    @property
    def bytes_moved(self) -> int:
        return self.bytes_read + self.bytes_written


def count_operations(problem: AttentionProblem, direction: str = "forward") -> tuple[Operation, ...]:
    """The operations of `naive_attention` on the problem, or with "backward" those of its backward pass."""
    import torch

    from kernels.device.dispatch import DispatchMode
    from kernels.oracle.naive import naive_attention

    counted: list[Operation] = []

    class Count(DispatchMode):
        def __torch_dispatch__(
            self, func: "OpOverload", types: tuple[type, ...], args: tuple = (), kwargs: dict | None = None
        ) -> "torch.Tensor":
            result = func(*args, **(kwargs or {}))
            name = func._schema.name.removeprefix("aten::")
            if not func.is_view and name not in LAUNCH_NOTHING:
                read = sum(_bytes(each) for each in args if isinstance(each, torch.Tensor))
                shape = "x".join(map(str, result.shape))
                counted.append(Operation(name, read, _bytes(result), shape))
            return result

    dtype = getattr(torch, problem.dtype)
    shapes = (problem.q_shape, problem.kv_shape, problem.kv_shape)
    inputs = [torch.empty(shape, dtype=dtype, device="meta", requires_grad=True) for shape in shapes]
    with Count():
        out = naive_attention(*inputs, scale=problem.scale, band=problem.rule)
        if direction == "backward":
            counted.clear()
            torch.autograd.grad(out, inputs, torch.empty_like(out))
    return tuple(counted)


def _bytes(tensor: "torch.Tensor") -> int:
    """Bytes of the distinct elements: a dimension of stride 0 repeats one element."""
    elements = math.prod(size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
    return elements * tensor.element_size()
