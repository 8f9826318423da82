"""A small FlashAttention forward in Triton, with a bug and without it, to try the Check page on:

streamlit run app.py -- --kernel examples/buggy_kernel.py:attention
"""

import torch

import triton
import triton.language as tl


@triton.jit
def _attention(
    q,
    k,
    v,
    out,
    q_len,
    kv_len,
    scale,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    CAUSAL: tl.constexpr,
    RESCALE: tl.constexpr,
):
    head, offs_d = tl.program_id(1).to(tl.int64), tl.arange(0, D)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = tl.full((BLOCK,), float("-inf"), tl.float32)
    l = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, D), tl.float32)
    q_tile = tl.load(q + (head * q_len + rows[:, None]) * D + offs_d, mask=rows[:, None] < q_len, other=0.0)
    for first in range(0, kv_len, BLOCK):
        keys = first + tl.arange(0, BLOCK)
        exists = keys[:, None] < kv_len
        k_tile = tl.load(k + (head * kv_len + keys[:, None]) * D + offs_d, mask=exists, other=0.0)
        v_tile = tl.load(v + (head * kv_len + keys[:, None]) * D + offs_d, mask=exists, other=0.0)
        scores = tl.dot(q_tile, tl.trans(k_tile)) * scale
        visible = keys[None, :] < kv_len
        if CAUSAL:
            visible = visible & (keys[None, :] <= rows[:, None])
        scores = tl.where(visible, scores, float("-inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        p = tl.exp(scores - m_new[:, None])
        alpha = tl.exp(m - m_new)
        l = l * alpha + tl.sum(p, axis=1)
        if RESCALE:  # the bug leaves this out: what was added before the max grew keeps its old weight
            acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile)
        m = m_new
    o = (acc / l[:, None]).to(out.dtype.element_ty)
    tl.store(out + (head * q_len + rows[:, None]) * D + offs_d, o, mask=rows[:, None] < q_len)


def _launch(query, key, value, is_causal, rescale):
    query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
    batch, heads, q_len, head_dim = query.shape
    out = torch.empty_like(query)
    grid = (triton.cdiv(q_len, 32), batch * heads)
    _attention[grid](
        query, key, value, out, q_len, key.shape[2], head_dim**-0.5, head_dim, 32, is_causal, rescale
    )
    return out


def attention(query, key, value, is_causal=False):
    """The kernel with the bug. Shapes and mask are those of scaled_dot_product_attention.

    head_dim must be a power of two from 16 on, and key must have as many heads as query.
    """
    return _launch(query, key, value, is_causal, rescale=False)


def attention_fixed(query, key, value, is_causal=False):
    """The kernel without the bug; otherwise as `attention`."""
    return _launch(query, key, value, is_causal, rescale=True)
