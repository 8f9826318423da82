"""`flash_attention` with a mask, or with scores, beyond a band: its checks, its kernels and its gradients."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.dispatch import attention_forward, plain_backward
from kernels.attention.operators import Settings
from kernels.primitives.replay import is_traced, repeat
from kernels.problem import Band, Pattern
from kernels.problem.expression import Node, parse


class Asked(NamedTuple):
    """The options of `flash_attention` beside a band, as they were given."""

    mask: str | None
    documents: Sequence[int] | None
    softcap: float
    alibi_slopes: Tensor | None
    sinks: Tensor | None


def pattern_of(query: Tensor, band: Band, asked: Asked) -> Pattern:
    """The pattern that the options of a call amount to; raises ValueError for what is not accepted.

    A mask beside a causal mask or a window hides what either hides.
    """
    mask, documents, softcap = asked.mask, asked.documents, asked.softcap
    given = {"alibi_slopes": asked.alibi_slopes, "sinks": asked.sinks}
    (batch, heads), device = query.shape[:2], query.device
    for name, tensor in given.items():
        if tensor is not None and (not isinstance(tensor, Tensor) or tensor.shape != (heads,)):
            accepted = f"expected a tensor of shape ({heads},), one number per query head"
            raise ValueError(f"{name} is not accepted: {accepted}")
        if tensor is not None and (tensor.device != device or not tensor.is_floating_point()):
            raise ValueError(f"{name} is {tensor.dtype} on {tensor.device}; expected floats on {device}")
    if asked.alibi_slopes is not None and asked.alibi_slopes.requires_grad:
        raise ValueError("alibi_slopes require a gradient, which they do not get here; give them detached")
    if isinstance(softcap, (bool, str)) or softcap is None or not 0 <= softcap <= LARGEST_CAP:
        accepted = f"expected a number from 0, which caps nothing, to {LARGEST_CAP:g}"
        raise ValueError(f"softcap={softcap!r} is not accepted: {accepted}")
    if mask is not None and not isinstance(mask, str):
        raise ValueError(f"mask={mask!r} is not accepted: expected a condition, such as 'k <= q', as text")
    lengths = _lengths(documents, band)
    words = mask if mask is not None or documents is None else "doc(q) == doc(k)"
    node = parse(words, "mask") if words is not None else None
    asks = node is not None and node.asks_documents
    if asks and band.q_len > band.kv_len:
        raise ValueError(f"documents take at most {band.kv_len} queries, as many as keys; given {band.q_len}")
    if documents is not None and not asks:
        raise ValueError(f"documents are given, but mask={mask!r} asks for none: use doc(q) and doc(k) in it")
    if node is not None and band.masks:
        node = Node("and", node, _node_of(band))
    ones = (1.0,) * heads  # the tensors hold the values
    slopes, sinks = (ones if given[name] is not None else () for name in ("alibi_slopes", "sinks"))
    whole = Band.of(band.q_len, band.kv_len) if node else band
    return Pattern(whole, node, (batch, heads), lengths, softcap, slopes, sinks)


def _lengths(documents: Any, band: Band) -> tuple[int, ...]:
    given: Any = () if documents is None else documents
    listed = given.tolist() if hasattr(given, "tolist") else given
    good = isinstance(listed, (list, tuple)) and all(
        isinstance(length, int) and not isinstance(length, bool) and length >= 0 for length in listed
    )
    if not good or sum(listed) > band.kv_len:
        accepted = f"expected whole numbers from 0, at most {band.kv_len} in all"
        raise ValueError(f"documents={documents!r} are not accepted: {accepted}")
    return tuple(listed)


def _node_of(band: Band) -> Node:
    """A band as an expression of the same positions."""
    q, k = Node("q"), Node("k")
    right = Node("<=", k, Node("+", q, Node("number", number=band.right)))
    left = Node("<=", Node("-", q, Node("number", number=band.left)), k)
    return Node("and", right, left)


def attend_by_pattern(
    query: Tensor, key: Tensor, value: Tensor, settings: Settings, asked: Asked
) -> tuple[Tensor, Tensor]:
    """O and lse, differentiable by query, key, value and sinks; slopes count as constants."""
    left, right, scale = settings
    pattern, sinks = pattern_of(query, Band(query.shape[2], key.shape[2], left, right), asked), asked.sinks
    if query.is_meta or query.numel() == 0 or key.shape[2] == 0:
        lse = query.new_full(query.shape[:3], float("-inf"), dtype=torch.float32)
        if sinks is not None:
            lse = torch.logaddexp(lse, sinks.detach()[:, None].float())
        return torch.zeros_like(query), lse
    return _PatternedAttention.apply(query, key, value, asked.alibi_slopes, sinks, pattern, scale)


LARGEST_CAP = 1e6


class _PatternedAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        slopes: Tensor | None,
        sinks: Tensor | None,
        *settings: Any,
    ) -> tuple[Tensor, ...]:
        per_head = [
            None if tensor is None else tensor.detach().float().contiguous() for tensor in (slopes, sinks)
        ]
        out, lse = _repeated(_launch_forward, (query, key, value, *per_head), settings)
        ctx.save_for_backward(query, key, value, out, lse, sinks)
        ctx.set_materialize_grads(False)
        ctx.settings, ctx.per_head = settings, per_head
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_out: Tensor | None, d_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        *inputs, out, lse, sinks = ctx.saved_tensors
        d_out = torch.zeros_like(out) if d_out is None else d_out
        d_lse = None if d_lse is None else d_lse.contiguous()
        given = (*inputs, out, lse, d_out, d_lse, *ctx.per_head)
        *gradients, delta = _repeated(_launch_backward, given, ctx.settings)
        d_sinks = None
        if sinks is not None:  # a key with no value: dP is 0, so dS = -P D
            weights = torch.exp(ctx.per_head[1][:, None] - lse)
            d_sinks = -(weights * delta).sum(dim=(0, 2)).to(sinks.dtype)
        return *gradients, None, d_sinks, None, None


def _repeated(launcher: Any, tensors: tuple, settings: tuple) -> tuple[Tensor, ...]:
    return launcher(*tensors, *settings) if is_traced() else repeat(launcher, tensors, settings)


def _given(slopes: Tensor | None, sinks: Tensor | None) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in (("slopes", slopes), ("sinks", sinks)) if tensor is not None}


def _launch_forward(*given: Any) -> tuple[Tensor, Tensor]:
    *inputs, slopes, sinks, pattern, scale = given
    asked = {"band": pattern.band, "scale": scale, "pattern": pattern, "per_head": _given(slopes, sinks)}
    return attention_forward(*inputs, **asked)


def _launch_backward(*given: Any) -> tuple[Tensor, ...]:
    q, k, v, out, lse, d_out, d_lse, slopes, sinks, pattern, scale = given
    per_head = _given(slopes, sinks)
    call = plain_backward(
        BackwardInputs(q, k, v, out, lse, d_out, pattern.band, scale, d_lse, pattern, per_head)
    )
    return *call.gradients, call.delta
