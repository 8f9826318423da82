"""`flash_attention`, which works with autograd and torch.compile.

Shapes and names are those of `torch.nn.functional.scaled_dot_product_attention`.

The call validates. The registered operators save what the backward pass needs, and launch the kernels of
`kernels/algorithms/`.
"""

from __future__ import annotations

import math
from typing import Literal, NoReturn, Protocol, overload

import torch
from torch import Tensor

from kernels.algorithms.backward.launch import flash_backward
from kernels.algorithms.flash2.forward import flash_forward
from kernels.algorithms.split_kv.launch import flash_split_kv
from kernels.device.runtime import BACKEND
from kernels.oracle.naive import group_size
from kernels.primitives.tuning import choose_config, gluon_is_known, split_config
from kernels.problem import Band

HOPPER_KERNEL = BACKEND == "cuda" and gluon_is_known()
if HOPPER_KERNEL:
    from kernels.algorithms.flash3.launch import chosen_config, flash_forward_hopper

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
MAX_PACKED_ROWS = 64
"""Split-KV decoding is used if the heads that share a key head have at most this many queries together."""
SMALLEST_SCALE = 1e-30
"""Used in place of a scale of 0, which would turn the -inf of masked scores into NaN. Either way all visible
scores are equal."""

Window = tuple[int | None, int | None]


@overload
def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    is_causal: bool = ...,
    window: Window | None = ...,
    scale: float | None = ...,
    enable_gqa: bool = ...,
    return_lse: Literal[False] = ...,
) -> Tensor: ...


@overload
def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    is_causal: bool = ...,
    window: Window | None = ...,
    scale: float | None = ...,
    enable_gqa: bool = ...,
    return_lse: Literal[True],
) -> tuple[Tensor, Tensor]: ...


def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    is_causal: bool = False,
    window: Window | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Exact attention without the (q_len, kv_len) matrix.

    query (batch, q_heads, q_len, head_dim); key and value (batch, kv_heads, kv_len, head_dim). kv_heads is
    q_heads; with `enable_gqa` it may be a divisor of it. float16, bfloat16 or float32, head_dim 16 to 256,
    any strides. `is_causal` lets query i see the keys j <= i + kv_len - q_len: it is aligned to the bottom
    right, and differs from torch's is_causal if the lengths differ. `window` (left, right) keeps the keys
    from `left` before that diagonal to `right` after it; None leaves a side open. `scale` defaults to
    1 / sqrt(head_dim). A row that sees no key gives 0, and lse -inf.

    Returns the output, shaped and typed as query, and with `return_lse` also the log-sum-exp of the scaled
    scores, float32 (batch, q_heads, q_len). Both have first derivatives; a second derivative is refused.
    Under autocast the inputs are cast to its type. Raises ValueError, which says what was given and what is
    accepted.
    """
    query, key, value = _autocast(query, key, value)
    _validate(query, key, value, enable_gqa)
    band = _band(query.shape[2], key.shape[2], is_causal, window)
    scale = 1.0 / math.sqrt(query.shape[3]) if scale is None else float(scale)
    if not math.isfinite(scale):
        raise ValueError(f"scale={scale} is not accepted: expected a finite number")
    if scale < 0:
        query, scale = -query, -scale
    scale = max(scale, SMALLEST_SCALE)
    out, lse = torch.ops.flash_attention.forward(query, key, value, band.left, band.right, scale)
    return (out, lse) if return_lse else out


def _autocast(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    device = query.device.type
    if not torch.is_autocast_enabled(device):
        return query, key, value
    dtype = torch.get_autocast_dtype(device)
    return query.to(dtype), key.to(dtype), value.to(dtype)


def _validate(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.dim() != 4:
            expected = "(batch, heads, length, head_dim)"
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected {expected}")
        if tensor.dtype != query.dtype or tensor.dtype not in DTYPES:
            expected = "float16, bfloat16 or float32, the same for query, key and value"
            raise ValueError(f"{name} has dtype {tensor.dtype}; expected {expected}")
        if tensor.device != query.device:
            raise ValueError(f"{name} is on {tensor.device}; expected {query.device}, where query is")
    batch, q_heads, _, head_dim = query.shape
    if not 16 <= head_dim <= 256:
        raise ValueError(f"query has head_dim {head_dim}; expected 16 to 256")
    if key.shape != value.shape or key.shape[0] != batch or key.shape[3] != head_dim:
        given = f"key has shape {tuple(key.shape)} and value {tuple(value.shape)}"
        raise ValueError(f"{given}; expected (batch {batch}, heads, length, head_dim {head_dim}) for both")
    kv_heads = key.shape[1]
    if kv_heads != q_heads and not (enable_gqa and kv_heads and q_heads % kv_heads == 0):
        expected = f"{q_heads}, as query has; with enable_gqa=True also a divisor"
        if enable_gqa:
            expected = f"a divisor of the {q_heads} query heads"
        raise ValueError(f"key has {kv_heads} heads; expected {expected}")


def _band(q_len: int, kv_len: int, is_causal: bool, window: Window | None) -> Band:
    left, right = (None, None) if window is None else window
    for name, bound in (("left", left), ("right", right)):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int) or bound < 0):
            given = f"window {name}={bound!r} is not accepted"
            raise ValueError(f"{given}: expected a whole number from 0, or None")
    return Band.of(q_len, kv_len, left, 0 if is_causal else right)


@torch.library.custom_op("flash_attention::forward", mutates_args=())
def _forward(
    query: Tensor, key: Tensor, value: Tensor, left: int, right: int, scale: float
) -> tuple[Tensor, Tensor]:
    batch, q_heads, q_len, head_dim = query.shape
    kv_len = key.shape[2]
    if query.numel() == 0 or kv_len == 0:
        lse = torch.full((batch, q_heads, q_len), float("-inf"), dtype=torch.float32, device=query.device)
        return torch.zeros_like(query), lse
    band = Band(q_len, kv_len, left, right)
    packed_rows = group_size(query, key) * q_len
    if packed_rows <= MAX_PACKED_ROWS:
        config = split_config(packed_rows, head_dim, query.element_size())
        out, lse, _ = flash_split_kv(query, key, value, band=band, scale=scale, config=config)
        return out, lse
    hopper = chosen_config(query, key, value, band) if HOPPER_KERNEL else None
    if hopper:
        out, lse, _ = flash_forward_hopper(query, key, value, band=band, scale=scale, config=hopper)
    else:
        config = choose_config("forward", head_dim, query.dtype, band.masks, kv_len)
        out, lse, _ = flash_forward(query, key, value, band=band, scale=scale, config=config)
    return out, lse


@_forward.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor, left: int, right: int, scale: float
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(query), query.new_empty(query.shape[:3], dtype=torch.float32)


@torch.library.custom_op("flash_attention::backward", mutates_args=())
def _backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    d_out: Tensor,
    d_lse: Tensor | None,
    left: int,
    right: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    q_len, kv_len = query.shape[2], key.shape[2]
    if query.numel() == 0 or kv_len == 0:
        return torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    band = Band(q_len, kv_len, left, right)
    shape = (query.shape[3], query.dtype, band.masks)
    return flash_backward(
        query,
        key,
        value,
        out,
        lse,
        d_out,
        band=band,
        scale=scale,
        d_lse=d_lse,
        dk_dv_config=choose_config("dk_dv", *shape, q_len),
        dq_config=choose_config("dq", *shape, kv_len),
    )


@_backward.register_fake
def _(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    d_out: Tensor,
    d_lse: Tensor | None,
    left: int,
    right: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


class _Context(Protocol):
    """What torch passes from the forward pass of an operator to its backward pass."""

    left: int
    right: int
    scale: float

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]: ...

    def save_for_backward(self, *tensors: Tensor) -> None: ...

    def set_materialize_grads(self, value: bool) -> None: ...


def _save_for_backward(
    ctx: _Context,
    inputs: tuple[Tensor, Tensor, Tensor, int, int, float],
    output: tuple[Tensor, Tensor],
) -> None:
    query, key, value, ctx.left, ctx.right, ctx.scale = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(query, key, value, *output)


def _differentiate(
    ctx: _Context, d_out: Tensor | None, d_lse: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
    query, key, value, out, lse = ctx.saved_tensors
    if d_out is None:
        d_out = torch.zeros_like(out)
    d_lse = None if d_lse is None else d_lse.contiguous()
    d_query, d_key, d_value = torch.ops.flash_attention.backward(
        query, key, value, out, lse, d_out, d_lse, ctx.left, ctx.right, ctx.scale
    )
    return d_query, d_key, d_value, None, None, None


def _refuse_second_derivative(ctx: _Context, *gradients: Tensor) -> NoReturn:
    raise NotImplementedError(
        "flash_attention has first derivatives only; for a second one use naive_attention, or the math "
        "backend of scaled_dot_product_attention"
    )


_forward.register_autograd(_differentiate, setup_context=_save_for_backward)
_backward.register_autograd(_refuse_second_derivative)
