"""Standard attention in torch, as users write it, with its mask and its shared key heads."""

import functools

import torch

from kernels.problem import Pattern, Rule


def visible_mask(
    band: Rule, first_row: int = 0, rows: int | None = None, device: str | torch.device = "cpu", head: int = 0
) -> torch.Tensor:
    """bool (rows, kv_len): which keys the queries from `first_row` on see; by default all queries.

    `head` is batch * q_heads + head, for a pattern whose heads see different keys.
    """
    if isinstance(band, Pattern):
        return _visible_of_pattern(band, first_row, rows, torch.device(device), head if band.by_head else 0)
    count = band.q_len - first_row if rows is None else rows
    diagonal = torch.arange(first_row, first_row + count, device=device)[:, None] + (band.kv_len - band.q_len)
    keys = torch.arange(band.kv_len, device=device)[None, :]
    return (keys <= diagonal + band.right) & (keys >= diagonal - band.left)


@functools.lru_cache(maxsize=2)  # a graph of calls cannot copy from the host
def _visible_of_pattern(
    pattern: Pattern, first_row: int, rows: int | None, device: torch.device, head: int
) -> torch.Tensor:
    return torch.from_numpy(pattern.visible(first_row, rows, head)).to(device)


def whole_mask(rule: Rule, device: str | torch.device = "cpu") -> torch.Tensor:
    """bool (q_len, kv_len), or (batch, q_heads, q_len, kv_len) if heads see different keys."""
    if not (isinstance(rule, Pattern) and rule.by_head):
        return visible_mask(rule, device=device)
    batch, heads = rule.heads
    masks = [visible_mask(rule, device=device, head=head) for head in range(batch * heads)]
    return torch.stack(masks).unflatten(0, (batch, heads))


def changed_scores(
    scores: torch.Tensor, rule: Rule, first_row: int = 0, head: int | None = None, first_key: int = 0
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Scaled scores, capped and with ALiBi if a pattern says so, and the derivative of the cap.

    scores are (rows, kv_len) of one query head, or (batch, q_heads, rows, kv_len) if `head` is None.
    """
    if not isinstance(rule, Pattern):
        return scores, None
    derivative = None
    if rule.softcap:
        capped = torch.tanh(scores / rule.softcap)
        derivative, scores = 1 - capped.square(), capped * rule.softcap
    if rule.slopes:
        rows, keys = (torch.arange(size, device=scores.device) for size in scores.shape[-2:])
        distance = (rows[:, None] + first_row + rule.first_position - keys - first_key).abs()
        scores = scores - per_head(rule.slopes, scores, head) * distance
    return scores, derivative


def per_head(values: tuple[float, ...], like: torch.Tensor, head: int | None = None) -> torch.Tensor:
    """One value per query head as (q_heads, 1, 1), or that of one head."""
    tensor = _on_device(values, like.dtype, like.device)
    return tensor[:, None, None] if head is None else tensor[head]


@functools.lru_cache(maxsize=8)
def _on_device(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, device=device)


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
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, scale: float, band: Rule
) -> torch.Tensor:
    """Standard attention with S and P in memory, in the type of the inputs (Dao et al. 2022, algorithm 0).

    query (batch, q_heads, q_len, head_dim), key and value (batch, kv_heads, kv_len, head_dim). A row that
    sees no key gives 0.
    """
    key, value = one_key_head_per_query_head(query, key, value)
    scores = query @ key.transpose(-2, -1) * scale
    scores, _ = changed_scores(scores, band)
    if isinstance(band, Pattern):
        return _weights_of_pattern(scores, band) @ value
    if not band.masks:
        return torch.softmax(scores, dim=-1) @ value
    visible = visible_mask(band, device=query.device)
    weights = torch.softmax(scores.masked_fill_(~visible, float("-inf")), dim=-1)
    if band.q_len > band.kv_len + band.right:  # the first rows see no key, and their softmax is NaN
        weights = weights.masked_fill(~visible, 0.0)  # not in place: autograd needs the softmax as it was
    return weights @ value


def _weights_of_pattern(scores: torch.Tensor, pattern: Pattern) -> torch.Tensor:
    """The softmax of the scores that the pattern leaves, with its sinks in the row sum."""
    batch, visible = len(scores), whole_mask(pattern, scores.device)
    scores = scores.masked_fill(~visible, float("-inf"))
    if pattern.sinks:
        sinks = per_head(pattern.sinks, scores).expand(batch, -1, scores.shape[2], 1)
        scores = torch.cat([scores, sinks], dim=-1)
    return torch.softmax(scores, dim=-1)[..., : visible.shape[-1]].masked_fill(~visible, 0.0)
