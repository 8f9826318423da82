"""Adapters: what to write beside a kernel whose layout, mask or window is not that of torch, to check it.

python -m kernels.check --kernel examples/adapters.py:attention

The kernel here stands for one from another library: its tensors are (batch, length, heads, head_dim), its
causal mask is aligned to the top left, and it takes a window of keys before and after the diagonal.
"""

import torch

CHECK = {
    "layout": "blhd",  # our tensors are handed over, and its output is read, in this order of axes
    "causal": "top_left",  # so the reference aligns the causal mask likewise if the lengths differ
    "window": "window_size",  # a window mask goes to this parameter, as (keys before, keys after)
    "gqa": True,  # it takes fewer key heads than query heads without being told
    "lse": "log2",  # its second result is lse in units of log2
    "dtypes": ["float16", "bfloat16"],
    "head_dims": [32, 64, 80, 128],
}
"""What the check has to know. The battery is fitted to it (here: to these types and head dims)."""


def library_attention(q, k, v, softmax_scale, causal, window_size):
    """Stands for the kernel. q (batch, q_len, heads, head_dim); (-1, -1) is no window. Returns O and lse."""
    group = q.shape[2] // k.shape[2]
    q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    scores = q.float() @ k.float().mT * softmax_scale
    rows = torch.arange(q.shape[2], device=q.device)[:, None]
    keys = torch.arange(k.shape[2], device=q.device)[None, :]
    hidden = (keys > rows) & causal
    if window_size != (-1, -1):
        distance = keys - rows - (k.shape[2] - q.shape[2])
        hidden = (distance < -window_size[0]) | (distance > window_size[1])
    scores = scores.masked_fill(hidden, float("-inf"))
    weights = torch.softmax(scores, dim=-1).nan_to_num(0.0)
    out = (weights @ v.float()).to(q.dtype).transpose(1, 2)
    return out, torch.logsumexp(scores, dim=-1) / torch.log(torch.tensor(2.0))


def attention(q, k, v, is_causal=False, scale=None, window_size=(-1, -1)):
    """The adapter: the names and defaults of scaled_dot_product_attention, and the layout of the kernel."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return library_attention(q, k, v, scale, is_causal, window_size)
