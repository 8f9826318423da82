"""Functions that are wrong in rare cases alone, or right within limits that their file could declare."""

import torch

import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as libdevice_of_cuda

CHECK = {"causal": "bottom_right", "gqa": True, "window": "window", "lse": "none"}


def right(query, key, value, is_causal=False, scale=None, window=None, enable_gqa=False):
    """Attention in float32, rounded at the end."""
    q_len, kv_len, group = query.shape[2], key.shape[2], query.shape[1] // key.shape[1]
    key, value = (tensor.repeat_interleave(group, 1).to(query.dtype) for tensor in (key, value))
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query.float() @ key.float().mT * scale
    distance = torch.arange(kv_len) - torch.arange(q_len)[:, None] - (kv_len - q_len)
    hidden = (distance > 0) & is_causal
    if window is not None:
        hidden = (distance < -window[0]) | (distance > window[1])
    weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1).nan_to_num(0.0)
    return (weights @ value.float()).to(query.dtype)


def last_key_of_its_own_tile(query, key, value, **options):
    """Leaves out the last key if it stands alone in a tile of 64."""
    alone = key.shape[2] % 64 == 1 and key.shape[2] > 1
    end = -1 if alone else None
    return right(query, key[:, :, :end], value[:, :, :end], **options)


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, key):
        return key.clone()

    @staticmethod
    def backward(ctx, d_key):
        return d_key * 1.5 if d_key.shape[-1] == 96 else d_key


def wrong_dk_at_96(query, key, value, **options):
    return right(query, _Scaled.apply(key), value, **options)


def float16_inside(query, key, value, **options):
    """Computes all types but bfloat16 in float16."""
    if query.dtype == torch.bfloat16:
        return right(query, key, value, **options)
    return right(query.half(), key.half(), value.half(), **options).to(query.dtype)


def takes_the_last_stride_for_1(query, key, value, **options):
    rows = (torch.as_strided(each, each.shape, (*each.stride()[:-1], 1)) for each in (query, key, value))
    return right(*rows, **options)


@triton.autotune(configs=[triton.Config({"SIZE": 32}), triton.Config({"SIZE": 64})], key=["n"])
@triton.jit
def _copy(source, target, n, SIZE: tl.constexpr, BUG: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    values = tl.load(source + at, mask=at < n, other=0.0)
    if BUG and SIZE == 64:
        values = values * 1.1
    tl.store(target + at, values.to(target.dtype.element_ty), mask=at < n)


def _copied(exact, bug):
    out = torch.empty(exact.shape, dtype=exact.dtype)
    _copy[lambda meta: (triton.cdiv(out.numel(), meta["SIZE"]),)](
        exact.contiguous(), out, out.numel(), BUG=bug
    )
    return out


def wrong_in_its_second_configuration(query, key, value):
    return _copied(right(query, key, value), True)


def right_in_both_configurations(query, key, value):
    return _copied(right(query, key, value), False)


@triton.jit
def _exponentials(source, target, n, SIZE: tl.constexpr, CUDA: tl.constexpr):
    at = tl.arange(0, SIZE)
    values = tl.load(source + at, mask=at < n, other=0.0)
    if CUDA:
        values = libdevice_of_cuda.exp(values)
    else:
        values = libdevice.exp(values)
    tl.store(target + at, values, mask=at < n)


def _with_exponentials(cuda):
    def attention(query, key, value):
        scores = query.float() @ key.float().mT * query.shape[-1] ** -0.5
        weights = torch.empty_like(scores)
        size = triton.next_power_of_2(scores.numel())
        shifted = scores - scores.amax(-1, keepdim=True)
        _exponentials[(1,)](shifted, weights, scores.numel(), SIZE=size, CUDA=cuda)
        return (weights / weights.sum(-1, keepdim=True) @ value.float()).to(query.dtype)

    return attention


uses_libdevice = _with_exponentials(False)
uses_libdevice_of_cuda = _with_exponentials(True)
