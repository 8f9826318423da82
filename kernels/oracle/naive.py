"""Standard attention in torch, as users write it, with its mask and its shared key heads."""

import torch

from kernels.problem import Band


def visible_mask(
    band: Band, first_row: int = 0, rows: int | None = None, device: str | torch.device = "cpu"
) -> torch.Tensor:
    """bool (rows, kv_len): which keys the queries from `first_row` on see; by default all queries."""
    count = band.q_len - first_row if rows is None else rows
    diagonal = torch.arange(first_row, first_row + count, device=device)[:, None] + (band.kv_len - band.q_len)
    keys = torch.arange(band.kv_len, device=device)[None, :]
    return (keys <= diagonal + band.right) & (keys >= diagonal - band.left)


def group_size(query: torch.Tensor, key: torch.Tensor) -> int:
    """Query heads that share one key head; tensors are (batch, heads, length, head_dim)."""
    return query.shape[1] // key.shape[1]


def one_key_head_per_query_head(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Key and value with every head repeated for each query head that shares it."""
    group = group_size(query, key)
    if group == 1:
        return key, value
    return key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)


def naive_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, scale: float, band: Band
) -> torch.Tensor:
    """Standard attention with S and P in memory, in the type of the inputs (Dao et al. 2022, algorithm 0).

    query (batch, q_heads, q_len, head_dim), key and value (batch, kv_heads, kv_len, head_dim). A row that
    sees no key gives 0.
    """
    key, value = one_key_head_per_query_head(query, key, value)
    scores = query @ key.transpose(-2, -1) * scale
    if not band.masks:
        return torch.softmax(scores, dim=-1) @ value
    visible = visible_mask(band, device=query.device)
    weights = torch.softmax(scores.masked_fill_(~visible, float("-inf")), dim=-1)
    if band.q_len > band.kv_len + band.right:  # the first rows see no key, and their softmax is NaN
        weights = weights.masked_fill(~visible, 0.0)  # not in place: autograd needs the softmax as it was
    return weights @ value
