"""Compares two tensors: errors by FlashAttention's rule, ulps, NaN and infinity, and where the errors lie."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from kernels.check.judge.error_maps import FINITE, MISSING, NOT_FINITE_AS_EXACT, UNEXPECTED, ErrorMap
from kernels.check.result import ULP_EDGES, TensorCheck
from kernels.oracle.rule import Comparison, absolute_error, mean_of

MAP_ROWS, MAP_COLUMNS, MAP_HEADS = 160, 128, 4
"""The most rows and columns of cells that a map has, and the most heads: those with the largest errors."""


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
        wrong_nonfinite=int((codes >= MISSING).sum()),
        nonfinite=int((~got.isfinite()).sum()),
        elements=got.numel(),
        ulps=() if name == "lse" else ulp_counts(got, exact, reference.dtype),
        naive_ulps=() if name == "lse" else ulp_counts(reference, exact, reference.dtype),
        reference=comparison.reference_name,
    )
    return check, codes


def finite_codes(got: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """uint8, shaped as got: FINITE, NOT_FINITE_AS_EXACT, MISSING or UNEXPECTED of kernels.check.result."""
    same = (got.double() == exact) | (got.isnan() & exact.isnan())
    codes = torch.full(got.shape, FINITE, dtype=torch.uint8, device=got.device)
    codes[same & ~exact.isfinite()] = NOT_FINITE_AS_EXACT
    codes[~same & got.isfinite() & ~exact.isfinite()] = MISSING
    codes[~same & ~got.isfinite()] = UNEXPECTED
    return codes


def ulp_counts(got: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype) -> tuple[int, ...]:
    """Number of elements in each bin of ULP_EDGES, by their error in units in the last place of `dtype`.

    Only elements that are finite in both tensors count.
    """
    limits = torch.finfo(dtype)
    both = got.isfinite() & exact.isfinite()
    exact = exact[both]
    least = math.log2(limits.smallest_normal)
    exponent = torch.where(
        exact == 0, least, torch.clamp(torch.frexp(exact).exponent.double() - 1, min=least)
    )
    ulps = (got[both].double() - exact).abs() / (limits.eps * torch.exp2(exponent))
    bins = torch.bucketize(ulps, torch.tensor(ULP_EDGES, dtype=torch.float64, device=got.device))
    return tuple(torch.bincount(bins, minlength=len(ULP_EDGES) + 1).tolist())


def worst_heads(error: torch.Tensor) -> torch.Tensor:
    """Indices batch * heads + head of at most MAP_HEADS heads with the largest errors, worst first."""
    largest = error.flatten(0, 1).amax(dim=(1, 2))
    return torch.argsort(largest, descending=True, stable=True)[:MAP_HEADS]


def error_map(
    kind: str,
    error: torch.Tensor,
    tolerance: float,
    codes: torch.Tensor | None,
    difference: torch.Tensor | None = None,
) -> ErrorMap:
    """The map of a (batch, heads, rows, columns) error: each cell's largest error over the tolerance.

    `difference` is got minus exact, for the signed map.
    """
    rows, columns = error.shape[2:]
    steps = -(-rows // MAP_ROWS), -(-columns // MAP_COLUMNS)
    heads = worst_heads(error)
    share = torch.where(error == 0, 0.0, error / tolerance).nan_to_num(nan=float("inf")).flatten(0, 1)[heads]
    pooled_codes = None
    if codes is not None and bool(codes.any()):
        pooled_codes = _pooled(codes.flatten(0, 1)[heads].float(), steps).to(torch.uint8).cpu().numpy()
    values = _pooled(share.float(), steps).cpu().numpy()
    signed = None
    if difference is not None:
        of_heads = difference.flatten(0, 1)[heads].nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).float()
        above, below = _pooled(of_heads, steps), -_pooled(-of_heads, steps)
        signed = torch.where(above >= -below, above, below).cpu().numpy()
    numbers = heads.int().cpu().numpy()
    return ErrorMap(kind, values, numbers, *steps, rows, columns, pooled_codes, signed=signed)


def _pooled(tensor: torch.Tensor, steps: tuple[int, int]) -> torch.Tensor:
    return tensor if steps == (1, 1) else F.max_pool2d(tensor[:, None], steps, ceil_mode=True)[:, 0]


def key_group_probe(value: torch.Tensor, block_n: int) -> tuple[torch.Tensor, int]:
    """Values shaped as `value` that tell groups of keys apart, and the number of keys in a group.

    A key's value is 1 in the column of its group and 0 elsewhere. A group is one key tile, or several if the
    head has fewer columns than there are key tiles.
    """
    kv_len, head_dim = value.shape[2:]
    tiles = -(-kv_len // block_n)
    group = -(-tiles // head_dim) * block_n
    key = torch.arange(kv_len, device=value.device)
    probe = torch.zeros_like(value, memory_format=torch.contiguous_format)
    probe[:, :, key, key // group] = 1
    return probe, group
