"""A right function, and mistakes that a kernel may make in few cases alone."""

import torch

CHECK = {"causal": "bottom_right", "gqa": True, "window": "window", "lse": "none"}


def right(query, key, value, is_causal=False, scale=None, window=None, enable_gqa=False):
    """Attention in float32, rounded at the end."""
    q_len, kv_len = query.shape[2], key.shape[2]
    key, value = (each.repeat_interleave(query.shape[1] // each.shape[1], 1) for each in (key, value))
    key, value = key.to(query.dtype), value.to(query.dtype)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query.float() @ key.float().mT * scale
    distance = torch.arange(kv_len) - torch.arange(q_len)[:, None] - (kv_len - q_len)
    hidden = (distance > 0) & is_causal
    if window is not None:
        hidden = (distance < -window[0]) | (distance > window[1])
    weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1).nan_to_num(0.0)
    return (weights @ value.float()).to(query.dtype)


def ignores_its_scale(query, key, value, scale=None, **options):
    return right(query, key, value, **options)


def reverses_the_batches_of_keys(query, key, value, **options):
    return right(query, key.flip(0), value, **options)


def takes_key_heads_in_turn(query, key, value, **options):
    return right(query, key.repeat(1, query.shape[1] // key.shape[1], 1, 1), value, **options)


def loses_gradients_of_a_group(query, key, value, **options):
    others = [value.detach()] * (query.shape[1] // value.shape[1] - 1)
    return right(query, key, torch.cat([value, *others], 1), **options)


def ignores_the_stride_of_batches(query, key, value, **options):
    packed = torch.as_strided(query, query.shape, (query[0].numel(), *query.stride()[1:]))
    return right(packed, key, value, **options)


def float16_inside(query, key, value, **options):
    """Computes all types but bfloat16 in float16."""
    if query.dtype == torch.bfloat16:
        return right(query, key, value, **options)
    return right(query.half(), key.half(), value.half(), **options).to(query.dtype)


def no_right_side(query, key, value, window, **options):
    return right(query, key, value, window=(window[0], 0), **options)


def moves_its_window(query, key, value, window, **options):
    left = window[0] + key.shape[2] - query.shape[2]
    return right(query, key, value, window=(left, window[1]), **options)


def takes_2048_keys(query, key, value, **options):
    return right(query, key[:, :, :2048], value[:, :, :2048], **options)


def without_the_last_key(query, key, value, **options):
    return right(query, key[:, :, :-1], value[:, :, :-1], **options)


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, key):
        return key.clone()

    @staticmethod
    def backward(ctx, d_key):
        return d_key * 1.5


def wrong_dk(query, key, value, **options):
    return right(query, _Scaled.apply(key), value, **options)


def takes_the_last_stride_for_1(query, key, value, **options):
    rows = (torch.as_strided(each, each.shape, (*each.stride()[:-1], 1)) for each in (query, key, value))
    return right(*rows, **options)
