"""Compares two tensors: errors by FlashAttention's rule, NaN and infinity, where the errors lie, and bits."""

import math

import torch
import torch.nn.functional as F

from kernels.check.result import ULP_EDGES, Difference, ErrorMap, TensorCheck
from kernels.oracle.rule import Comparison, absolute_error, mean_of

MAP_ROWS, MAP_COLUMNS, MAP_HEADS = 160, 128, 4
"""The most rows and columns of cells that a map has, and the most heads: those with the largest errors."""
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def check_tensor(name: str, got: torch.Tensor, comparison: Comparison) -> tuple[TensorCheck, torch.Tensor]:
    """The check of a tensor that was compared with the exact one, and its codes of NaN and infinity.

    The codes are shaped as `got`. Units in the last place are not counted for lse, which is float32 whatever
    the type of the inputs.
    """
    report, exact, reference = comparison.report, comparison.exact, comparison.reference
    worst = torch.unravel_index(comparison.error.argmax(), comparison.error.shape)
    index = tuple(int(i) for i in worst)
    codes = finite_codes(got, exact)
    check = TensorCheck(
        name=name,
        max_error=report.max_error,
        mean_error=report.mean_error,
        naive_max_error=report.naive_max_error,
        naive_mean_error=mean_of(absolute_error(reference, exact)),
        tolerance=report.tolerance,
        worst=index,
        worst_value=float(got[index]),
        exact_value=float(exact[index]),
        wrong_nonfinite=int((codes >= 2).sum()),
        nonfinite=int((~got.isfinite()).sum()),
        elements=got.numel(),
        ulps=() if name == "lse" else ulp_counts(got, exact, reference.dtype),
        naive_ulps=() if name == "lse" else ulp_counts(reference, exact, reference.dtype),
        reference=comparison.reference_name,
    )
    return check, codes


def finite_codes(got: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """uint8, shaped as got: indices of CODES of kernels.check.result."""
    same = (got.double() == exact) | (got.isnan() & exact.isnan())
    wrong = torch.where(got.isfinite(), torch.where(exact.isfinite(), 0, 2), 3)
    return torch.where(same, torch.where(exact.isfinite(), 0, 1), wrong).to(torch.uint8)


def ulp_counts(got: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype) -> tuple[int, ...]:
    """Number of elements in each bin of ULP_EDGES, by their error in units in the last place of `dtype`.

    Only elements that are finite in both tensors count.
    """
    limits, both = torch.finfo(dtype), got.isfinite() & exact.isfinite()
    exact, least = exact[both], math.log2(limits.smallest_normal)
    exponent = torch.where(exact == 0, least, (torch.frexp(exact).exponent.double() - 1).clamp(min=least))
    ulps = (got[both].double() - exact).abs() / (limits.eps * torch.exp2(exponent))
    bins = torch.bucketize(ulps, torch.tensor(ULP_EDGES, dtype=torch.float64, device=got.device))
    return tuple(torch.bincount(bins, minlength=len(ULP_EDGES) + 1).tolist())


def error_map(
    kind: str,
    error: torch.Tensor,
    tolerance: float,
    difference: torch.Tensor,
    codes: torch.Tensor | None = None,
) -> ErrorMap:
    """The map of a (batch, heads, rows, columns) error: each cell's largest error over the tolerance.

    `difference` is got minus exact, for the signed map.
    """
    rows, columns = error.shape[2:]
    steps = -(-rows // MAP_ROWS), -(-columns // MAP_COLUMNS)
    largest = error.flatten(0, 1).amax(dim=(1, 2))
    heads = torch.argsort(largest, descending=True, stable=True)[:MAP_HEADS]

    def pooled(tensor: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(tensor.flatten(0, 1)[heads].float()[:, None], steps, ceil_mode=True)[:, 0]

    share = torch.where(error == 0, 0.0, error / tolerance).nan_to_num(nan=float("inf"))
    finite = difference.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    above, below = pooled(finite), -pooled(-finite)
    return ErrorMap(
        kind,
        pooled(share).cpu().numpy(),
        heads.int().cpu().numpy(),
        *steps,
        rows,
        columns,
        torch.where(above >= -below, above, below).cpu().numpy(),
        pooled(codes).to(torch.uint8).cpu().numpy() if codes is not None and bool(codes.any()) else None,
    )


def bits_differ(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """bool, shaped as both: whether the bits of an element are not the same."""
    return _bits_of(one) != _bits_of(other)


def difference(name: str, one: torch.Tensor, other: torch.Tensor) -> Difference | None:
    """How far two results of that name are apart; None if all bits are the same. NaN counts as infinite."""
    where = bits_differ(one, other)
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


def _bits_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(INTEGERS[tensor.element_size()])


def _ordered(tensor: torch.Tensor) -> torch.Tensor:
    """Integers in the order of the floats: sign and magnitude to two's complement."""
    bits = _bits_of(tensor).long()
    magnitude = bits & ((1 << (8 * tensor.element_size() - 1)) - 1)
    return torch.where(bits < 0, -magnitude, magnitude)
