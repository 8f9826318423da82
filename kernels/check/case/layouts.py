"""The tensors that a kernel is handed: a copy of its own for each run, in the layout of the case."""

from collections.abc import Sequence

import torch

NAMES = ("query", "key", "value", "dO")
PADDING = 8
"""Rows and columns before and after a sliced tensor, unless its layout says otherwise."""


class Handed:
    """Fresh Q, K, V and dO for one run, and afterwards what the kernel changed of them."""

    def __init__(self, tensors: Sequence[torch.Tensor], layout: str) -> None:
        """`tensors` are Q, K and V, and dO or not; they stay as they are."""
        self._originals = tuple(tensors)
        self.tensors = laid_out(self._originals, layout)
        memory = (  # all elements of the storages that they lie in
            torch.empty(0, dtype=each.dtype, device=each.device).set_(each.untyped_storage())
            for each in self.tensors
        )
        self._memory = [(each, each.clone()) for each in memory]

    def changed(self) -> dict[str, int]:
        """Elements that are not what they were, by the name of the tensor; NaN is equal to itself."""
        named = zip(NAMES, self.tensors, self._originals, strict=False)
        changed = {name: _differing(tensor, original) for name, tensor, original in named}
        if not any(changed.values()):  # what lies between the elements of a view is not the kernel's either
            around = zip(NAMES, self._memory, strict=False)
            changed = {f"memory around {name}": _differing(*memory) for name, memory in around}
        return {name: count for name, count in changed.items() if count}


def _differing(one: torch.Tensor, other: torch.Tensor) -> int:
    return int((~((one == other) | (one.isnan() & other.isnan()))).sum())


def laid_out(tensors: Sequence[torch.Tensor], layout: str) -> tuple[torch.Tensor, ...]:
    """Copies of (batch, heads, length, head_dim) tensors, which lie in memory as LAYOUTS of `cases` says."""
    query, key, value, *rest = tensors
    if layout == "transposed":
        return tuple(map(_transposed, tensors))
    if layout.startswith("sliced"):
        around = int(layout.partition(":")[2] or PADDING)
        return tuple(_sliced(tensor, around) for tensor in tensors)
    if layout == "expanded":
        return (_plain(query), *map(_expanded, (key, value, *rest)))
    if layout == "packed":
        same = query.shape == key.shape
        parts = [part.transpose(1, 2) for part in ((query, key, value) if same else (key, value))]
        packed = (part.transpose(1, 2) for part in torch.stack(parts, dim=2).unbind(2))
        return (*(() if same else (_transposed(query),)), *packed, *map(_transposed, rest))
    if layout == "mixed":
        return (_plain(query.mT).mT, _transposed(key), _plain(value.mT).mT, *map(_sliced, rest))
    return tuple(map(_plain, tensors))


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    return _plain(tensor.transpose(1, 2)).transpose(1, 2)


def _expanded(tensor: torch.Tensor) -> torch.Tensor:
    """Stride 0 along each axis in which all is the same: `out.sum()` gives such a dO."""
    one = tensor
    for axis in range(tensor.ndim):
        first = one.narrow(axis, 0, 1)
        one = first if bool((one == first).all()) else one
    return _plain(one).expand(tensor.shape)


def _sliced(tensor: torch.Tensor, padding: int = PADDING) -> torch.Tensor:
    """The middle of a larger tensor: every stride but the last is larger, and it starts later.

    What lies around it is NaN: a kernel that reads there shows it.
    """
    batch, heads, length, head_dim = tensor.shape
    around = tensor.new_full((batch, heads + 1, length + padding, head_dim + 2 * padding), float("nan"))
    return around[:, 1:, padding:, padding : padding + head_dim].copy_(tensor)
