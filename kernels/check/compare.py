"""Compares two tensors: errors by FlashAttention's rule, ulps, NaN and infinity, and where the errors lie."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from kernels.check.result import (
    FINITE,
    MISSING,
    NOT_FINITE_AS_EXACT,
    ULP_EDGES,
    UNEXPECTED,
    ErrorMap,
    TensorCheck,
)
from kernels.oracle.reference import error_report

MAP_ROWS, MAP_COLUMNS, MAP_HEADS = 160, 128, 4
"""The most rows and columns of cells that a map has, and the most heads: those with the largest errors."""


def check_tensor(
    name: str,
    got: torch.Tensor,
    exact: torch.Tensor,
    naive: torch.Tensor,
    in_float32: torch.Tensor,
    factor: float,
    largest_value: float,
) -> tuple[TensorCheck, torch.Tensor, torch.Tensor]:
    """The check, |got - exact| in float64, and the codes of NaN and infinity, both shaped as `got`.

    Naive attention in the type of the inputs may overflow although float64 is finite. Its error is then
    infinite, and the rule would allow any result. The reference then is attention in float32, rounded to that
    type, and the allowed error grows by the rounding of P.
    """
    low = naive.dtype
    exact = _as_stored(exact, low)
    report, reference, extra = error_report(got, exact, naive, factor), str(low).removeprefix("torch."), 0.0
    if math.isinf(report.naive_max_error) and low != torch.float32:
        naive, reference = in_float32.to(low), f"float32 rounded to {reference}"
        report, extra = error_report(got, exact, naive, factor), factor * torch.finfo(low).eps * largest_value
    error, naive_error = _difference(got, exact), _difference(naive, exact)
    codes = finite_codes(got, exact)
    worst = _worst_index(error)
    check = TensorCheck(
        name,
        max_error=report.max_error,
        mean_error=report.mean_error,
        naive_max_error=report.naive_max_error,
        naive_mean_error=_mean(naive_error),
        tolerance=report.tolerance + extra,
        worst=worst,
        worst_value=float(got[worst]),
        exact_value=float(exact[worst]),
        wrong_nonfinite=int((codes >= MISSING).sum()),
        nonfinite=int((~got.isfinite()).sum()),
        elements=got.numel(),
        ulps=ulp_counts(got, exact, low),
        naive_ulps=ulp_counts(naive, exact, low),
        reference=reference,
    )
    return check, error, codes


def check_lse(got: torch.Tensor, exact: torch.Tensor, in_float32: torch.Tensor) -> TensorCheck:
    """The check of lse (batch, heads, rows), which every kernel sums in float32.

    Twice the error of float32 attention is allowed, plus four roundings of the largest value.
    """
    error, reference_error = _difference(got, exact), _difference(in_float32, exact)
    rounding = torch.finfo(torch.float32).eps * max(largest_magnitude(exact), 1.0)
    finite = exact.isfinite()
    reference_max = float(reference_error[finite].max()) if finite.any() else 0.0
    codes = finite_codes(got, exact)
    worst = _worst_index(error)
    return TensorCheck(
        "lse",
        max_error=float(error.max()),
        mean_error=_mean(error),
        naive_max_error=reference_max,
        naive_mean_error=_mean(reference_error),
        tolerance=2 * reference_max + 4 * rounding,
        worst=worst,
        worst_value=float(got[worst]),
        exact_value=float(exact[worst]),
        wrong_nonfinite=int((codes >= MISSING).sum()),
        nonfinite=int((~got.isfinite()).sum()),
        elements=got.numel(),
        reference="float32",
    )


def largest_magnitude(tensor: torch.Tensor) -> float:
    """The largest |value| of the finite elements; 0 if there are none."""
    finite = tensor[tensor.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _as_stored(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The exact values; infinite if they exceed the largest number of the type that stores the result."""
    stored = exact.to(dtype).double()
    return torch.where(stored.isinf(), stored, exact)


def _difference(got: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    got = got.double()
    same = (got == exact) | (got.isnan() & exact.isnan())
    return torch.where(same, 0.0, (got - exact).abs().nan_to_num(nan=float("inf"), posinf=float("inf")))


def _mean(error: torch.Tensor) -> float:
    return float(error.mean()) if error.numel() else 0.0


def _worst_index(error: torch.Tensor) -> tuple[int, ...]:
    return tuple(int(index) for index in torch.unravel_index(error.argmax(), error.shape))


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


def error_map(kind: str, error: torch.Tensor, tolerance: float, codes: torch.Tensor | None) -> ErrorMap:
    """The map of a (batch, heads, rows, columns) error: the largest error in each cell over the tolerance."""
    rows, columns = error.shape[2:]
    steps = -(-rows // MAP_ROWS), -(-columns // MAP_COLUMNS)
    heads = worst_heads(error)
    share = torch.where(error == 0, 0.0, error / tolerance).nan_to_num(nan=float("inf")).flatten(0, 1)[heads]
    pooled_codes = None
    if codes is not None and bool(codes.any()):
        pooled_codes = _pooled(codes.flatten(0, 1)[heads].float(), steps).to(torch.uint8).cpu().numpy()
    values = _pooled(share.float(), steps).cpu().numpy()
    return ErrorMap(kind, values, heads.int().cpu().numpy(), *steps, rows, columns, pooled_codes)


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
