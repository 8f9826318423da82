"""`flash_attention`, in place of `torch.nn.functional.scaled_dot_product_attention`.

The call checks what it is given; `kernels/attention/operators.py` computes, differentiates and launches.

On Hopper with head_dim up to 128, the gradient of query is summed in no fixed order, so its last bits may
differ from call to call.
After `torch.use_deterministic_algorithms(True)` every bit is the same, and the gradients take longer.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, NoReturn, overload

import torch
from torch import Tensor
from torch.autograd import forward_ad

from kernels.attention.operators import Settings, attend, launch_forward, refuse_forward_mode
from kernels.attention.patterned import Asked, attend_by_pattern
from kernels.device.runtime import BACKEND
from kernels.primitives.replay import Known, Repetition, is_traced, repetition_of, signature_of
from kernels.problem import Band

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
DEVICES = ("cuda", "meta") if BACKEND == "cuda" else ("cpu", "meta")
ALIGNMENTS = ("bottom_right", "top_left")
SMALLEST_SCALE = 1e-30
"""Used in place of a scale of 0, which would turn the -inf of masked scores into NaN. Either way all visible
scores are equal."""

Window = tuple[int | None, int | None]
Alignment = Literal["bottom_right", "top_left"]

_accepted = Known()
"""Settings and `Repetition` by the signature and options of calls that were checked."""


@overload
def flash_attention(*inputs: Any, return_lse: Literal[False] = ..., **options: Any) -> Tensor: ...


@overload
def flash_attention(*inputs: Any, return_lse: Literal[True], **options: Any) -> tuple[Tensor, Tensor]: ...


def flash_attention(  # type: ignore[misc]  # what it takes stands here alone
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    window: Window | None = None,
    causal_alignment: Alignment = "bottom_right",
    mask: str | None = None,
    documents: Sequence[int] | None = None,
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    sinks: Tensor | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Exact attention without the (q_len, kv_len) matrix; arguments in the order of SDPA.

    query (batch, q_heads, q_len, head_dim); key and value (batch, kv_heads, kv_len, head_dim). kv_heads is
    q_heads; with `enable_gqa` it may be a divisor of it. float16, bfloat16 or float32, head_dim 16 to 256,
    any strides. `attn_mask` must be None and `dropout_p` 0.

    `is_causal` lets query i see the keys up to its diagonal: j <= i + kv_len - q_len, or j <= i with
    `causal_alignment="top_left"`. The two are the same for equal lengths. For unequal ones torch's is_causal
    is "top_left", and FlashAttention since 2.1 is "bottom_right", the default. `window` (left, right) keeps
    the keys from `left` before that diagonal to `right` after it; None leaves a side open. `scale` defaults
    to 1 / sqrt(head_dim). A row that sees no key gives 0, and lse -inf, or its sink.

    Further masks and scores run on the plain kernels. `mask` is a condition of positions (expression.py),
    beside `is_causal` and `window`. `documents` are lengths of documents, one after the other in the keys;
    without a `mask`, a query sees its own. `softcap` makes a score s to softcap * tanh(s / softcap).
    `alibi_slopes` and `sinks` are (q_heads,): a score loses slope * distance; a sink is a logit that takes
    part in the row sum, and is differentiable.

    Returns the output, shaped and typed as query, and with `return_lse` also the log-sum-exp of the scaled
    scores, float32 (batch, q_heads, q_len). Both have first derivatives; a second derivative and forward mode
    are refused. Under autocast the inputs are cast to its type. On the meta device nothing is computed.
    Raises ValueError or TypeError, which says what was given and what is accepted.
    """
    if attn_mask is not None or dropout_p:
        _refuse_masks_and_dropout(attn_mask, dropout_p)
    if not (isinstance(query, Tensor) and isinstance(key, Tensor) and isinstance(value, Tensor)):
        _refuse_non_tensors(query=query, key=key, value=value)
    query, key, value = _autocast(query, key, value)
    window = (None, None) if window is None else _bounds(window)
    scale = None if scale is None else float(scale)
    if scale is not None and scale < 0:
        query, scale = -query, -scale
    if forward_ad._current_level >= 0 and any(map(_is_dual, (query, key, value))):
        refuse_forward_mode()
    options = (bool(is_causal), window, causal_alignment, scale, bool(enable_gqa))
    asked = Asked(mask, documents, softcap, alibi_slopes, sinks)
    if softcap or any(option is not None for option in (mask, documents, alibi_slopes, sinks)):
        out, lse = attend_by_pattern(query, key, value, _check(query, key, value, *options), asked)
    else:
        out, lse = attend(query, key, value, *_settle(query, key, value, options))
    return (out, lse) if return_lse else out


def _is_dual(tensor: Tensor) -> bool:
    return forward_ad.unpack_dual(tensor).tangent is not None


def _refuse_non_tensors(**given: object) -> None:
    for name, tensor in given.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name} is a {type(tensor).__name__}; expected a torch.Tensor")


def _settle(query: Tensor, key: Tensor, value: Tensor, options: tuple) -> tuple[Settings, Repetition | None]:
    """The settings that the arguments amount to, checked at the first such call, and what is known of it."""
    signature = None if is_traced() else signature_of((query, key, value))
    if signature is None:
        return _check(query, key, value, *options), None
    known = _accepted.get((signature, options))
    if known is None:
        settings = _check(query, key, value, *options)
        known = settings, repetition_of(launch_forward, settings, signature)
        _accepted[signature, options] = known
    return known


def _refuse_masks_and_dropout(attn_mask: object, dropout_p: float) -> NoReturn:
    if attn_mask is not None:
        kind = f"of shape {tuple(attn_mask.shape)}" if isinstance(attn_mask, Tensor) else repr(attn_mask)
        raise ValueError(
            f"attn_mask {kind} is not accepted: expected None. Use is_causal=True or window=(left, right), "
            "or scaled_dot_product_attention for another mask"
        )
    raise ValueError(
        f"dropout_p={dropout_p!r} is not accepted: expected 0.0. In evaluation pass 0.0; for dropout in "
        "training use scaled_dot_product_attention"
    )


def _autocast(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    device = query.device.type
    if device == "meta" or not torch.is_autocast_enabled(device):
        return query, key, value
    dtype = torch.get_autocast_dtype(device)
    return query.to(dtype), key.to(dtype), value.to(dtype)


def _bounds(window: object) -> Window:
    if not isinstance(window, (tuple, list)) or len(window) != 2:
        expected = "expected (left, right), such as (5, 0) for each key and the 5 before it, or None"
        raise ValueError(f"window={window!r} is not accepted: {expected}")
    for name, bound in zip(("left", "right"), window, strict=True):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int) or bound < 0):
            given = f"window {name}={bound!r} is not accepted"
            raise ValueError(f"{given}: expected a whole number from 0, or None")
    return window[0], window[1]


def _check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    is_causal: bool,
    window: Window,
    causal_alignment: Alignment,
    scale: float | None,
    enable_gqa: bool,
) -> Settings:
    """The settings that the arguments amount to; raises ValueError for what is not accepted."""
    _validate(query, key, value, enable_gqa)
    if causal_alignment not in ALIGNMENTS:
        expected = " or ".join(map(repr, ALIGNMENTS))
        raise ValueError(f"causal_alignment={causal_alignment!r} is not accepted: expected {expected}")
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[3])
    elif not math.isfinite(scale):
        raise ValueError(f"scale={scale} is not accepted: expected a finite number")
    left, right = window[0], 0 if is_causal else window[1]
    q_len, kv_len = query.shape[2], key.shape[2]
    if causal_alignment == "top_left":  # count from the diagonal that starts at the first key
        left = None if left is None else left + kv_len - q_len
        right = None if right is None else right - (kv_len - q_len)
    band = Band.of(q_len, kv_len, left, right)
    return band.left, band.right, max(scale, SMALLEST_SCALE)


def _validate(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.layout != torch.strided or tensor.is_nested:
            raise ValueError(f"{name} has layout {tensor.layout}; expected a dense tensor")
        if tensor.dim() != 4:
            expected = "(batch, heads, length, head_dim)"
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected {expected}")
        if tensor.dtype != query.dtype or tensor.dtype not in DTYPES:
            expected = "float16, bfloat16 or float32, the same for query, key and value"
            raise ValueError(f"{name} has dtype {tensor.dtype}; expected {expected}")
        if tensor.device != query.device:
            raise ValueError(f"{name} is on {tensor.device}; expected {query.device}, where query is")
    if query.device.type not in DEVICES:
        raise ValueError(f"query is on {query.device}; expected {DEVICES[0]}, where the kernels run")
    batch, q_heads, _, head_dim = query.shape
    if not 16 <= head_dim <= 256:
        raise ValueError(f"query has head_dim {head_dim}; expected 16 to 256")
    if key.shape != value.shape or key.shape[0] != batch or key.shape[3] != head_dim:
        given = f"key has shape {tuple(key.shape)} and value {tuple(value.shape)}"
        raise ValueError(f"{given}; expected (batch {batch}, heads, length, head_dim {head_dim}) for both")
    kv_heads = key.shape[1]
    if kv_heads != q_heads and not (enable_gqa and kv_heads and q_heads % kv_heads == 0):
        expected = f"{q_heads}, as query has, or with enable_gqa=True a divisor of it"
        raise ValueError(f"key has {kv_heads} heads; expected {expected}")
