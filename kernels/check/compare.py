"""Two tensors compared: errors by FlashAttention's rule, ulps, NaN and infinity, and maps of where the errors lie."""

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
"""Cells of a map, and the heads that are kept: those with the largest errors."""


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

    Where naive attention in the type of the inputs is not finite although float64 is, its error is infinite and the rule would allow
    anything; then the reference is attention in float32, rounded to that type, and the allowance grows by the rounding of P.
    """
    low = naive.dtype
    exact = _as_stored(exact, low)
    report, reference, extra = error_report(got, exact, naive, factor), str(low).removeprefix("torch."), 0.0
    if math.isinf(report.naive_max_error) and low != torch.float32:
        naive, reference = in_float32.to(low), f"float32 rounded to {reference}"
        report, extra = error_report(got, exact, naive, factor), factor * torch.finfo(low).eps * largest_value
    error, naive_error = _difference(got, exact), _difference(naive, exact)
    codes = finite_codes(got, exact)
    check = TensorCheck(
        name, report.max_error, report.mean_error, report.naive_max_error, _mean(naive_error), report.tolerance + extra,
        **_worst(got, exact, error), wrong_nonfinite=int((codes >= MISSING).sum()), nonfinite=int((~got.isfinite()).sum()),
        elements=got.numel(), ulps=ulp_counts(got, exact, low), naive_ulps=ulp_counts(naive, exact, low), reference=reference,
    )  # fmt: skip
    return check, error, codes


def check_lse(got: torch.Tensor, exact: torch.Tensor, in_float32: torch.Tensor) -> TensorCheck:
    """lse (batch, heads, rows) is a float32 sum in every kernel: twice the error of float32 plus four roundings of its largest value."""
    error, reference = _difference(got, exact), _difference(in_float32, exact)
    finite = exact[exact.isfinite()]
    rounding = torch.finfo(torch.float32).eps * max(float(finite.abs().max()) if finite.numel() else 0.0, 1.0)
    of_reference = float(reference[exact.isfinite()].max()) if finite.numel() else 0.0
    codes = finite_codes(got, exact)
    return TensorCheck(
        "lse", float(error.max()), _mean(error), of_reference, _mean(reference), 2 * of_reference + 4 * rounding,
        **_worst(got, exact, error), wrong_nonfinite=int((codes >= MISSING).sum()), nonfinite=int((~got.isfinite()).sum()),
        elements=got.numel(), reference="float32",
    )  # fmt: skip


def _as_stored(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The exact values, infinite where they lie beyond the largest number of the type they are stored in."""
    stored = exact.to(dtype).double()
    return torch.where(stored.isinf(), stored, exact)


def _difference(got: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    got = got.double()
    same = (got == exact) | (got.isnan() & exact.isnan())
    return torch.where(same, 0.0, (got - exact).abs().nan_to_num(nan=float("inf"), posinf=float("inf")))


def _mean(error: torch.Tensor) -> float:
    return float(error.mean()) if error.numel() else 0.0


def _worst(got: torch.Tensor, exact: torch.Tensor, error: torch.Tensor) -> dict:
    place = int(error.argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(place), error.shape))
    return {"worst": index, "worst_value": float(got[index]), "exact_value": float(exact[index])}


def finite_codes(got: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """uint8, shaped as got: FINITE, NOT_FINITE_AS_EXACT, MISSING or UNEXPECTED of kernels.check.result."""
    same = (got.double() == exact) | (got.isnan() & exact.isnan())
    codes = torch.full(got.shape, FINITE, dtype=torch.uint8, device=got.device)
    codes[same & ~exact.isfinite()] = NOT_FINITE_AS_EXACT
    codes[~same & got.isfinite() & ~exact.isfinite()] = MISSING
    codes[~same & ~got.isfinite()] = UNEXPECTED
    return codes


def ulp_counts(got: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype) -> tuple[int, ...]:
    """How many elements are off by so many units in the last place of `dtype`, in the bins of ULP_EDGES. Finite elements only."""
    kinds = torch.finfo(dtype)
    both = got.isfinite() & exact.isfinite()
    exact = exact[both]
    least = math.log2(kinds.smallest_normal)
    exponent = torch.where(
        exact == 0, least, torch.clamp(torch.frexp(exact).exponent.double() - 1, min=least)
    )
    ulps = (got[both].double() - exact).abs() / (kinds.eps * torch.exp2(exponent))
    bins = torch.bucketize(ulps, torch.tensor(ULP_EDGES, dtype=torch.float64, device=got.device))
    return tuple(torch.bincount(bins, minlength=len(ULP_EDGES) + 1).tolist())


# --- maps ------------------------------------------------------------------------------------------------------------


def worst_heads(error: torch.Tensor) -> torch.Tensor:
    """Indices batch * heads + head of at most MAP_HEADS heads with the largest errors, worst first."""
    of_heads = error.flatten(0, 1).amax(dim=(1, 2))
    return torch.argsort(of_heads, descending=True, stable=True)[:MAP_HEADS]


def error_map(kind: str, error: torch.Tensor, tolerance: float, codes: torch.Tensor | None) -> ErrorMap:
    """The map of a (batch, heads, rows, columns) error: the largest of each cell over the tolerance."""
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
    """Values that tell the keys apart, and how many keys share a column: value[..., key, key // keys] = 1, all else 0.

    As many key tiles share a column as must for the columns of the head to suffice.
    """
    kv_len, head_dim = value.shape[2:]
    tiles = -(-kv_len // block_n)
    keys = -(-tiles // head_dim) * block_n
    place = torch.arange(kv_len, device=value.device)
    probe = torch.zeros_like(value, memory_format=torch.contiguous_format)
    probe[:, :, place, place // keys] = 1
    return probe, keys
