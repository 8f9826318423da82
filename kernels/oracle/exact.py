"""Exact attention: computed in float64, or in any other type for a reference of that precision."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch

from kernels.oracle.naive import changed_scores, group_size, per_head, visible_mask
from kernels.problem import Pattern, Rule

CHUNK_BYTES = 256 << 20
"""Largest matrix of scores that is in memory at once if only output and lse are computed."""

MINUS_INFINITY = float("-inf")

Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""query, key and value."""
Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""dQ, dK and dV, shaped as query, key and value."""


class Block(NamedTuple):
    """Some rows of one head."""

    place: tuple[int, int, slice]
    """(batch, head, rows)"""
    scores: torch.Tensor
    weights: torch.Tensor
    values: torch.Tensor
    """V of the head."""
    lse: torch.Tensor
    derivative: torch.Tensor | None
    """Of the scores by what they were before a cap; None for 1."""


def attention_by_rows(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    scale: float,
    band: Rule,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and lse of standard attention computed in `dtype`, some rows at a time: for any length.

    float64 gives the exact result. The type of the inputs gives the reference from which a tolerance is
    derived. Output is shaped as query, lse (batch, q_heads, q_len); both are of `dtype`, on the inputs'
    device.
    """
    out = torch.empty(query.shape, dtype=dtype, device=query.device)
    lse = torch.empty(query.shape[:3], dtype=dtype, device=query.device)
    for block in _blocks((query, key, value), scale, band, dtype):
        lse[block.place] = block.lse
        out[block.place] = block.weights @ block.values
    return out, lse


def _blocks(
    inputs: Inputs, scale: float, band: Rule, dtype: torch.dtype, whole_heads: bool = False
) -> Iterator[Block]:
    """Some rows of one head after the other: their place, scores (-inf if masked), weights, and V."""
    query, key, value = inputs
    batch, q_heads, q_len, _ = query.shape
    group = group_size(query, key)
    rows = q_len if whole_heads else max(1, min(q_len, CHUNK_BYTES // (8 * band.kv_len)))
    for b in range(batch):
        for h in range(q_heads):
            keys, values = key[b, h // group].to(dtype), value[b, h // group].to(dtype)
            for first in range(0, q_len, rows):
                block = query[b, h, first : first + rows].to(dtype)
                visible = visible_mask(band, first, len(block), query.device, b * q_heads + h)
                scores, derivative = changed_scores(block @ keys.T * scale, band, first, h)
                scores = scores.masked_fill_(~visible, MINUS_INFINITY)
                weights = torch.softmax(scores, dim=-1).masked_fill_(~visible, 0.0)
                lse = torch.logsumexp(scores, dim=-1)
                if isinstance(band, Pattern) and band.sinks:
                    sink = per_head(band.sinks, lse, h)
                    weights *= torch.sigmoid(lse - sink)[:, None]
                    lse = torch.logaddexp(lse, sink)
                place = (b, h, slice(first, first + rows))
                yield Block(place, scores, weights, values, lse, derivative)


def output_rounding(inputs: Inputs, *, scale: float, band: Rule) -> float:
    """What attention in float32 may be off by, if it rounds P and the sums in S to float32.

    Two standard errors of the worst element. Each rounding is up to half an ulp, evenly spread, so that its
    standard error is that over sqrt(3). S sums head_dim products one after the other; the squares of the
    partial sums add up to (head_dim + 1) (A / 6 + S^2 / 3) in the mean over all orders, if A are the squares
    of the products. An error of S moves O by its weight times (V - O).

    A reference that is off by less sums in another way, or was lucky, as it may be on few elements. On an
    H200 (40 queries, 70 keys, head_dim 64) cuBLAS was off by at most 2.7e-7, flash_attention by 7.5e-7, SDPA
    by more than 6.0e-7. On a CPU, of 2,400 right results of 16 queries, 32 keys and head_dim 16, seven were
    further off than twice the reference. See `kernels.oracle.rule.compare`.
    """
    rounding, worst = torch.finfo(torch.float32).eps / math.sqrt(12), 0.0
    query, key, _ = inputs
    group, head_dim = group_size(query, key), query.shape[3]
    for part in _blocks(inputs, scale, band, torch.float64):
        (b, h, rows), scores, weights, values, _, _ = part
        block, keys = query[b, h, rows].double() * scale, key[b, h // group].double()
        products = block.square() @ keys.square().T
        of_s = (head_dim + 1) * (products / 6 + scores.masked_fill(weights == 0, 0.0).square() / 3)
        of_p, moved, out = weights.square(), weights.square() * of_s, weights @ values
        spread = moved @ values.square() - 2 * out * (moved @ values) + out.square() * moved.sum(-1, True)
        variance = of_p @ values.square() + spread
        worst = max(worst, largest_finite(variance))
    return 2 * rounding * math.sqrt(worst)


def gradients_by_heads(
    inputs: Inputs, d_out: torch.Tensor, *, scale: float, band: Rule, dtype: torch.dtype
) -> Gradients:
    """Gradients of query, key and value computed in `dtype`, one head at a time.

    Chu, Liu and Lin 2026, eq 15 to 24. d_out is shaped as query. Holds a few (q_len, kv_len) matrices.
    """
    query, key, _ = inputs
    group = group_size(query, key)
    d_query, d_key, d_value = (
        torch.zeros(tensor.shape, dtype=dtype, device=tensor.device) for tensor in inputs
    )
    for part in _blocks(inputs, scale, band, dtype, whole_heads=True):
        (b, h, _), _, p, v, _, derivative = part
        q, k, do = (tensor.to(dtype) for tensor in (query[b, h], key[b, h // group], d_out[b, h]))
        delta = ((p @ v) * do).sum(dim=-1, keepdim=True)
        ds = p * (do @ v.T - delta) * scale
        if derivative is not None:
            ds = ds * derivative
        d_query[b, h] = ds @ k
        d_key[b, h // group] += ds.T @ q
        d_value[b, h // group] += p.T @ do
    return d_query, d_key, d_value


def gradient_rounding(
    inputs: Inputs, d_out: torch.Tensor, *, scale: float, band: Rule
) -> tuple[float, float, float]:
    """What dQ, dK and dV are off by, about, if a backward pass rounds its intermediates to the inputs' type.

    The largest standard error of an element, if P, each product in dP and each product in delta are rounded,
    independently: by up to half an ulp, evenly spread, so that the standard error is that over sqrt(3). A
    reference that is off by less was lucky, as for queries that see one key: there dP and delta are equal, dS
    is 0, and the reference may round both to the same number. Other right kernels round each in its own way.
    See `kernels.oracle.rule.compare`.
    """
    query, key, _ = inputs
    group, rounding = group_size(query, key), torch.finfo(query.dtype).eps / math.sqrt(12)
    single = torch.finfo(torch.float32).eps / math.sqrt(12)
    d_query = 0.0
    d_key, d_value = (torch.zeros(key.shape, dtype=torch.float64, device=query.device) for _ in range(2))
    blocks = _blocks(inputs, scale, band, torch.float64, whole_heads=True)
    for (b, h, _), scores, p, v, _, _ in blocks:
        q, k, do = (tensor.double() for tensor in (query[b, h], key[b, h // group], d_out[b, h]))
        of_p = p * (rounding + single * scores.masked_fill_(scores == MINUS_INFINITY, 0.0).abs())
        of_dp = (do.square() @ v.T.square()).sqrt_() * rounding
        of_delta = ((p @ v) * do).square_().sum(dim=-1, keepdim=True).sqrt_() * rounding
        of_ds = (p * of_dp * scale).square_()
        of_dq = of_ds @ k.square() + (of_delta * scale * (p @ k)).square_()
        d_query = max(d_query, largest_finite(of_dq))
        d_key[b, h // group] += (of_ds + (p * of_delta * scale).square_()).T @ q.square()
        d_value[b, h // group] += of_p.square_().T @ do.square()
    return math.sqrt(d_query), math.sqrt(largest_finite(d_key)), math.sqrt(largest_finite(d_value))


def largest_finite(tensor: torch.Tensor) -> float:
    """Largest |element| among the finite ones; 0 if there are none."""
    finite = tensor[tensor.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0
