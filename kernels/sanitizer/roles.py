"""Which arguments of a kernel are Q, K, V and O: by their memory, also through copies that torch made."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from kernels.sanitizer.fresh import AfterOperation

_aten = torch.ops.aten
_COPIES = {_aten.clone.default, _aten._to_copy.default}


class Dim(NamedTuple):
    """A dimension of some memory: `size` steps of `stride` elements move `factor` along `axis` of the role.

    The axis is 0 to 3 (batch, head, row, column), or -1 for copies of the same element.
    """

    stride: int
    size: int
    axis: int
    factor: int


@dataclass(frozen=True)
class Role:
    """How a tensor with a role lies in its storage."""

    name: str
    offset: int
    dims: tuple[Dim, ...]
    heads: int
    """Heads of the tensor."""

    @classmethod
    def of(cls, name: str, tensor: torch.Tensor) -> "Role":
        """The role of a (batch, heads, length, head_dim) tensor."""
        dims = (Dim(tensor.stride(axis), tensor.shape[axis], axis, 1) for axis in range(4))
        return cls(
            name, int(tensor.storage_offset()), tuple(dim for dim in dims if dim.size > 1), tensor.shape[1]
        )

    def index(self, elements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """int (4, n): index of each element of the storage; and bool (n,): whether the role has it."""
        rest = elements - self.offset
        index, known = np.zeros((4, len(elements)), np.int64), rest >= 0
        for dim in sorted(self.dims, key=lambda dim: -dim.stride):
            steps, rest = np.divmod(rest, dim.stride)
            known &= steps < dim.size
            if dim.axis >= 0:
                index[dim.axis] += steps * dim.factor
        return index, known & (rest == 0)

    def copied(self, source: torch.Tensor, target: torch.Tensor) -> "Role | None":
        """The role of a copy of a view of this memory, both shaped alike; None if they do not match."""
        if source.storage_offset() != self.offset:
            return None
        left, dims = list(self.dims), []
        for axis, size in enumerate(source.shape):
            stride, step = source.stride(axis), target.stride(axis)
            if size > 1 and stride == 0:
                dims.append(Dim(step, size, -1, 0))
                continue
            while size > 1:
                dim = next((dim for dim in left if dim.stride == stride and size % dim.size == 0), None)
                if dim is None:
                    return None
                left.remove(dim)
                dims.append(Dim(step, dim.size, dim.axis, dim.factor))
                size, stride, step = size // dim.size, stride * dim.size, step * dim.size
        return None if left else Role(self.name, int(target.storage_offset()), tuple(dims), self.heads)


class FollowCopies(AfterOperation):
    """Remembers the copies that torch makes while the mode is on, and keeps their memory in use."""

    def __init__(self) -> None:
        super().__init__()
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []

    def hear(self, func: Callable, args: tuple, made: Any) -> None:
        if func in _COPIES:
            self._copies.append((args[0], made))
        elif func is _aten.copy_.default and args[0].shape == args[1].shape:
            self._copies.append((args[1], args[0]))

    def roles(self, inputs: dict[str, torch.Tensor], output: torch.Tensor) -> dict[int, list[Role]]:
        """Roles by address of the storage. A copy of an input has its role; what O is copied from has O's."""
        found: dict[int, list[Role]] = {}
        for name, tensor in (inputs | {"O": output}).items():
            found.setdefault(_address(tensor), []).append(Role.of(name, tensor))
        for source, target in self._copies:
            _hand_on(found, source, target)
        for source, target in reversed(self._copies):
            _hand_on(found, target, source)
        return found


def _hand_on(found: dict[int, list[Role]], source: torch.Tensor, target: torch.Tensor) -> None:
    if _address(target) in found:
        return
    copies = [role.copied(source, target) for role in found.get(_address(source), ())]
    if known := [role for role in copies if role]:
        found[_address(target)] = known


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
