"""Compares two results bit by bit, in units in the last place."""

from __future__ import annotations

import torch

INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """The bits of each element as an integer."""
    return tensor.contiguous().view(INTEGERS[tensor.element_size()])


def ulps_between(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """int64, shaped as both: how many numbers of their type lie between two elements; NaN is past infinity.

    Both zeros are 0 apart.
    """
    return (_ordered(one) - _ordered(other)).abs()


def _ordered(tensor: torch.Tensor) -> torch.Tensor:
    """Integers in the order of the floats: sign and magnitude to two's complement."""
    bits = bits_of(tensor).long()
    magnitude = bits & ((1 << (8 * tensor.element_size() - 1)) - 1)
    return torch.where(bits < 0, -magnitude, magnitude)


def difference_words(one: torch.Tensor, other: torch.Tensor) -> str:
    """Such as "12 of 4,096 elements differ, by up to 1.2e-03 (2 ulps), the first at [0, 1, 3, 0]"."""
    differ = bits_of(one) != bits_of(other)
    where = [int(number) for number in differ.nonzero()[0]]
    largest = float((one.double() - other.double())[differ].abs().nan_to_num(nan=float("inf")).max())
    ulps = int(ulps_between(one, other).max())
    return (
        f"{int(differ.sum()):,} of {one.numel():,} elements differ, by up to {largest:.1e} ({ulps:,} ulps), "
        f"the first at {where}"
    )
