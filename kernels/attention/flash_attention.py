"""`flash_attention`: the public call. Shapes and names as `torch.nn.functional.scaled_dot_product_attention`, autograd, torch.compile.

The call validates, the registered operators save and launch; see forward.py, forward_hopper.py, split_kv.py and backward.py for the kernels.
"""

from __future__ import annotations

import math

import torch

from kernels.algorithms.backward.backward import flash_backward
from kernels.algorithms.flash2.forward import flash_forward
from kernels.algorithms.split_kv.split_kv import flash_split_kv
from kernels.primitives.softmax import BACKEND
from kernels.primitives.tuning import choose_config, gluon_is_known, split_config

HOPPER_KERNEL = BACKEND == "cuda" and gluon_is_known()
if HOPPER_KERNEL:
    from kernels.algorithms.flash3.forward_hopper import chosen_config, flash_forward_hopper

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
MAX_PACKED_ROWS = 64
"""Up to so many queries a key head (those of all heads that share it), split-KV decoding is used."""
SMALLEST_SCALE = 1e-30
"""Stands for a scale of 0, which would turn the -inf of masked scores into NaN: all scores are equal either way."""


def flash_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, is_causal: bool = False, window: tuple[int | None, int | None] | None = None,
    scale: float | None = None, enable_gqa: bool = False, return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Exact attention without the (q_len, kv_len) matrix.

    query (batch, q_heads, q_len, head_dim); key and value (batch, kv_heads, kv_len, head_dim), where kv_heads divides
    q_heads if `enable_gqa`, else is the same. float16, bfloat16 or float32, head_dim 16 to 256, any strides.
    `is_causal` lets query i see the keys j <= i + kv_len - q_len (aligned bottom right, unlike torch's is_causal where
    lengths differ). `window` (left, right) leaves the keys from `left` before that diagonal to `right` after it; None
    leaves a side open. `scale` defaults to 1 / sqrt(head_dim). A row that sees no key gives 0, and lse -inf.

    Returns the output, shaped and typed as query, and with `return_lse` the log-sum-exp of the scaled scores, float32
    (batch, q_heads, q_len). Both have first derivatives; a second derivative is refused. Under autocast the inputs
    are cast to its type. Raises ValueError, which says what was given and what is accepted.
    """
    query, key, value = _autocast(query, key, value)
    _validate(query, key, value, enable_gqa)
    left, right = _band(query.shape[2], key.shape[2], is_causal, window)
    scale = 1.0 / math.sqrt(query.shape[3]) if scale is None else float(scale)
    if not math.isfinite(scale):
        raise ValueError(f"scale={scale} is not accepted: expected a finite number")
    if scale < 0:
        query, scale = -query, -scale
    out, lse = torch.ops.flash_attention.forward(query, key, value, left, right, max(scale, SMALLEST_SCALE))
    return (out, lse) if return_lse else out


def _autocast(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(tensor.to(dtype) for tensor in tensors)


def _validate(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, enable_gqa: bool) -> None:
    named = {"query": query, "key": key, "value": value}
    for name, tensor in named.items():
        if tensor.dim() != 4:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}; expected (batch, heads, length, head_dim)"
            )
        if tensor.dtype != query.dtype or tensor.dtype not in DTYPES:
            raise ValueError(
                f"{name} has dtype {tensor.dtype}; expected float16, bfloat16 or float32, the same for query, key and value"
            )
        if tensor.device != query.device:
            raise ValueError(f"{name} is on {tensor.device}; expected {query.device}, where query is")
    batch, q_heads, _, head_dim = query.shape
    if not 16 <= head_dim <= 256:
        raise ValueError(f"query has head_dim {head_dim}; expected 16 to 256")
    if key.shape != value.shape or key.shape[0] != batch or key.shape[3] != head_dim:
        expected = f"(batch {batch}, heads, length, head_dim {head_dim}) for both"
        raise ValueError(
            f"key has shape {tuple(key.shape)} and value {tuple(value.shape)}; expected {expected}"
        )
    kv_heads = key.shape[1]
    if kv_heads != q_heads and not (enable_gqa and kv_heads and q_heads % kv_heads == 0):
        expected = (
            f"a divisor of the {q_heads} query heads"
            if enable_gqa
            else f"{q_heads}, as query has; with enable_gqa=True also a divisor"
        )
        raise ValueError(f"key has {kv_heads} heads; expected {expected}")


def _band(
    q_len: int, kv_len: int, is_causal: bool, window: tuple[int | None, int | None] | None
) -> tuple[int, int]:
    """(left, right) bounds of the mask around the diagonal; q_len + kv_len where a side is open."""
    unbounded = q_len + kv_len
    left, right = (None, None) if window is None else window
    for name, bound in (("left", left), ("right", right)):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int) or bound < 0):
            raise ValueError(
                f"window {name}={bound!r} is not accepted: expected a whole number from 0, or None"
            )
    left = unbounded if left is None else min(left, unbounded)
    right = unbounded if right is None else min(right, unbounded)
    return left, 0 if is_causal else right


@torch.library.custom_op("flash_attention::forward", mutates_args=())
def _forward(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, left: int, right: int, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    batch, q_heads, q_len, head_dim = query.shape
    kv_heads, kv_len = key.shape[1:3]
    if query.numel() == 0 or kv_len == 0:
        lse = torch.full((batch, q_heads, q_len), float("-inf"), dtype=torch.float32, device=query.device)
        return torch.zeros_like(query), lse
    mask = {"left": left, "right": right, "scale": scale}
    packed_rows = q_heads // kv_heads * q_len
    if packed_rows <= MAX_PACKED_ROWS:
        out, lse, _ = flash_split_kv(
            query, key, value, config=split_config(packed_rows, head_dim, query.element_size()), **mask
        )
        return out, lse
    hopper = chosen_config(query, key, value, left, right) if HOPPER_KERNEL else None
    if hopper:
        out, lse, _ = flash_forward_hopper(query, key, value, config=hopper, **mask)
    else:
        masked = min(left, right) < q_len + kv_len
        out, lse, _ = flash_forward(
            query, key, value, config=choose_config("forward", head_dim, query.dtype, masked, kv_len), **mask
        )
    return out, lse


@_forward.register_fake
def _(query, key, value, left, right, scale):
    return torch.empty_like(query), query.new_empty(query.shape[:3], dtype=torch.float32)


@torch.library.custom_op("flash_attention::backward", mutates_args=())
def _backward(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, d_out: torch.Tensor,
    d_lse: torch.Tensor | None, left: int, right: int, scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    if query.numel() == 0 or key.shape[2] == 0:
        return torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    masked = min(left, right) < query.shape[2] + key.shape[2]
    choose = (query.shape[3], query.dtype, masked)
    return flash_backward(
        query, key, value, out, lse, d_out, left=left, right=right, scale=scale, d_lse=d_lse,
        dk_dv_config=choose_config("dk_dv", *choose, query.shape[2]), dq_config=choose_config("dq", *choose, key.shape[2]),
    )  # fmt: skip


@_backward.register_fake
def _(query, key, value, out, lse, d_out, d_lse, left, right, scale):
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _save_for_backward(ctx, inputs, output):
    query, key, value, ctx.left, ctx.right, ctx.scale = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(query, key, value, *output)


def _differentiate(ctx, d_out, d_lse):
    query, key, value, out, lse = ctx.saved_tensors
    if d_out is None:
        d_out = torch.zeros_like(out)
    d_lse = None if d_lse is None else d_lse.contiguous()
    gradients = torch.ops.flash_attention.backward(
        query, key, value, out, lse, d_out, d_lse, ctx.left, ctx.right, ctx.scale
    )
    return *gradients, None, None, None


def _refuse_second_derivative(ctx, *gradients):
    raise NotImplementedError(
        "flash_attention has first derivatives only; for a second one use naive_attention, or scaled_dot_product_attention's math"
    )


_forward.register_autograd(_differentiate, setup_context=_save_for_backward)
_backward.register_autograd(_refuse_second_derivative)
