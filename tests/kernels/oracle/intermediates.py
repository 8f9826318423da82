"""Attention in float64 with every intermediate, which tests hold traces and kernels against."""

from dataclasses import dataclass

import torch

from kernels.oracle.exact import MINUS_INFINITY
from kernels.oracle.naive import one_key_head_per_query_head, visible_mask
from kernels.problem import Band


@dataclass(frozen=True)
class Oracle:
    """Attention in float64 with every intermediate. The tensors start with (batch, q_heads, ...)."""

    scores: torch.Tensor
    """(..., q_len, kv_len): scaled scores, -inf if the query does not see the key."""
    visible: torch.Tensor
    """(q_len, kv_len), without heads."""
    weights: torch.Tensor
    """(..., q_len, kv_len): softmax of the scores."""
    output: torch.Tensor
    """(..., q_len, head_dim)"""
    lse: torch.Tensor
    """(..., q_len)"""
    value: torch.Tensor
    """(..., kv_len, head_dim): one copy per query head."""

    def after_keys(
        self, head: tuple[int, int], rows: slice, keys: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Row max m, row sum l and accumulator of the online softmax after the keys with these indices.

        m and l are (rows,), the accumulator is (rows, head_dim).
        """
        scores = self.scores[head][rows][:, keys]
        if len(keys):
            m = scores.max(dim=-1).values
        else:
            m = torch.full(scores.shape[:1], MINUS_INFINITY, dtype=torch.float64)
        exponentials = torch.exp(scores - torch.where(m == MINUS_INFINITY, 0.0, m)[:, None])
        return m, exponentials.sum(dim=-1), exponentials @ self.value[head][keys]


def oracle(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, scale: float, band: Band
) -> Oracle:
    """The float64 oracle on the CPU. Holds several (q_len, kv_len) matrices per head: for small problems."""
    query, key, value = (tensor.detach().cpu().double() for tensor in (query, key, value))
    key, value = one_key_head_per_query_head(query, key, value)
    visible = visible_mask(band)
    scores = (query @ key.transpose(-2, -1) * scale).masked_fill(~visible, MINUS_INFINITY)
    weights = torch.softmax(scores, dim=-1).masked_fill(~visible, 0.0)
    return Oracle(scores, visible, weights, weights @ value, torch.logsumexp(scores, dim=-1), value)
