"""Gradients of attention in float64, with the intermediates that the backward kernels go through."""

from dataclasses import dataclass

import torch

from kernels import tiles
from kernels.inputs import make_d_output, make_inputs
from kernels.reference import visible_mask


@dataclass(frozen=True)
class Gradients:
    """Per query head, float64: P, dS, D, and the gradients; dK and dV summed over the heads of a group."""

    weights: torch.Tensor
    d_scores: torch.Tensor
    delta: torch.Tensor
    query: torch.Tensor
    d_out: torch.Tensor
    d_query: torch.Tensor
    d_key: torch.Tensor
    d_value: torch.Tensor


def exact_gradients(problem, dtype=torch.float64, device="cpu"):
    """By the formulas of Chu, Liu and Lin 2026 (eq 15 to 24), in `dtype` throughout."""
    query, key, value, d_out = (tensor.to(dtype) for tensor in (*make_inputs(problem, device), make_d_output(problem, device)))
    group = problem.q_heads // problem.kv_heads
    keys, values = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    visible = visible_mask(problem.q_len, problem.kv_len, *tiles.band(problem), device=device)
    scores = (query @ keys.transpose(-1, -2) * problem.scale).masked_fill(~visible, float("-inf"))
    weights = torch.softmax(scores, dim=-1).masked_fill(~visible, 0.0)
    d_weights = d_out @ values.transpose(-1, -2)
    delta = (d_out * (weights @ values)).sum(dim=-1)
    d_scores = weights * (d_weights - delta[..., None])

    def over_group(tensor):
        return tensor.unflatten(1, (problem.kv_heads, group)).sum(dim=2)

    return Gradients(
        weights, d_scores, delta, query, d_out,
        d_query=d_scores @ keys * problem.scale,
        d_key=over_group(d_scores.transpose(-1, -2) @ query) * problem.scale,
        d_value=over_group(weights.transpose(-1, -2) @ d_out),
    )  # fmt: skip
