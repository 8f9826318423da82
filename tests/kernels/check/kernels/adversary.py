"""Functions that try to make a check say something false."""

import torch


def attention(q, k, v):
    """Right."""
    return torch.softmax((q @ k.mT).float() * q.shape[-1] ** -0.5, -1).to(v.dtype) @ v


def zeros(q, k, v, scale):
    """Wrong, whatever the scale."""
    return torch.zeros_like(q)


def scales_its_query(q, k, v):
    """Right, but what it was given is no longer what it was."""
    out = attention(q, k, v)
    q.mul_(2)
    return out


def takes_its_tensors_for_contiguous(q, k, v):
    """Right for contiguous tensors alone."""
    return attention(*(each.as_strided(each.shape, torch.empty(each.shape).stride()) for each in (q, k, v)))
