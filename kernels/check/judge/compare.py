"""Compares two tensors: errors by FlashAttention's rule, NaN and infinity, where the errors lie, and bits."""

import torch
import torch.nn.functional as F

from kernels.check.result import ErrorMap, TensorCheck
from kernels.oracle.rule import Comparison, absolute_error, mean_of

MAP_ROWS, MAP_COLUMNS, MAP_HEADS = 160, 128, 4
"""The most rows and columns of cells that a map has, and the most heads: those with the largest errors."""
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def check_tensor(name: str, got: torch.Tensor, comparison: Comparison) -> TensorCheck:
    """The check of a tensor that was compared with the exact one."""
    report, exact, reference = comparison.report, comparison.exact, comparison.reference
    worst = torch.unravel_index(comparison.error.argmax(), comparison.error.shape)
    index = tuple(int(i) for i in worst)
    same = (got.double() == exact) | (got.isnan() & exact.isnan())
    return TensorCheck(
        name=name,
        max_error=report.max_error,
        mean_error=report.mean_error,
        naive_max_error=report.naive_max_error,
        naive_mean_error=mean_of(absolute_error(reference, exact)),
        tolerance=report.tolerance,
        worst=index,
        worst_value=float(got[index]),
        exact_value=float(exact[index]),
        wrong_nonfinite=int((~same & ~(got.isfinite() & exact.isfinite())).sum()),
        nonfinite=int((~got.isfinite()).sum()),
        elements=got.numel(),
        reference=comparison.reference_name,
    )


def error_map(kind: str, error: torch.Tensor, tolerance: float) -> ErrorMap:
    """The map of a (batch, heads, rows, columns) error: each cell's largest error over the tolerance."""
    rows, columns = error.shape[2:]
    steps = -(-rows // MAP_ROWS), -(-columns // MAP_COLUMNS)
    largest = error.flatten(0, 1).amax(dim=(1, 2))
    heads = torch.argsort(largest, descending=True, stable=True)[:MAP_HEADS]
    share = torch.where(error == 0, 0.0, error / tolerance).nan_to_num(nan=float("inf"))
    cells = F.max_pool2d(share.flatten(0, 1)[heads].float()[:, None], steps, ceil_mode=True)[:, 0]
    return ErrorMap(kind, cells.cpu().numpy(), heads.int().cpu().numpy(), *steps, rows, columns)


def bits_differ(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """bool, shaped as both: whether the bits of an element are not the same."""
    return _bits_of(one) != _bits_of(other)


def difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference between two results; 0 if all bits are the same. NaN counts as infinite."""
    where = bits_differ(one, other)
    distance = (one.double() - other.double())[where].abs().nan_to_num(nan=float("inf"))
    return float(distance.max()) if distance.numel() else 0.0


def _bits_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(INTEGERS[tensor.element_size()])
