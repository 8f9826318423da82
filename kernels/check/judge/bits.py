"""Compares two results bit by bit, also in units in the last place."""

from __future__ import annotations

import torch

from kernels.check.result import Difference

INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """The bits of each element as an integer."""
    return tensor.contiguous().view(INTEGERS[tensor.element_size()])


def differs(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """bool, shaped as both: whether the bits of an element are not the same."""
    return _bits_of(one) != _bits_of(other)


def difference(name: str, one: torch.Tensor, other: torch.Tensor) -> Difference | None:
    """How far two results of that name are apart; None if all bits are the same. NaN counts as infinite."""
    where = differs(one, other)
    if not where.any():
        return None
    distance = (one.double() - other.double())[where].abs().nan_to_num(nan=float("inf"))
    ulps = int(ulps_between(one, other).max())
    return Difference(name, int(where.sum()), one.numel(), ulps, float(distance.max()))


def ulps_between(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """int64, shaped as both: how many numbers of their type lie between two elements; NaN is past infinity.

    Both zeros are 0 apart.
    """
    return (_ordered(one) - _ordered(other)).abs()


def _ordered(tensor: torch.Tensor) -> torch.Tensor:
    """Integers in the order of the floats: sign and magnitude to two's complement."""
    bits = _bits_of(tensor).long()
    magnitude = bits & ((1 << (8 * tensor.element_size() - 1)) - 1)
    return torch.where(bits < 0, -magnitude, magnitude)
