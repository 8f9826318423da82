"""Kernels with loads that name no value for the lanes that their mask leaves out."""

import torch

import triton
import triton.language as tl

BLOCK = 32


@triton.jit
def _attend(q, k, v, out, q_len, kv_len, scale, D: tl.constexpr, BLOCK: tl.constexpr, USES: tl.constexpr):
    head, offs_d = tl.program_id(1), tl.arange(0, D)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    q_tile = tl.load(q + (head * q_len + rows[:, None]) * D + offs_d, mask=rows[:, None] < q_len)
    m = tl.full((BLOCK,), float("-inf"), tl.float32)
    l = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, D), tl.float32)
    for first in range(0, kv_len, BLOCK):
        keys = first + tl.arange(0, BLOCK)
        exists = keys[:, None] < kv_len
        k_tile = tl.load(k + (head * kv_len + keys[:, None]) * D + offs_d, mask=exists)
        if USES:  # the weights of these lanes are 0, and 0 times an undefined value is undefined
            v_tile = tl.load(v + (head * kv_len + keys[:, None]) * D + offs_d, mask=exists)
        else:
            v_tile = tl.load(v + (head * kv_len + keys[:, None]) * D + offs_d, mask=exists, other=0.0)
        scores = tl.dot(q_tile, tl.trans(k_tile)) * scale
        scores = tl.where(keys[None, :] < kv_len, scores, float("-inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        p = tl.exp(scores - m_new[:, None])
        alpha = tl.exp(m - m_new)
        l = l * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v_tile.dtype), v_tile)
        m = m_new
    o = (acc / l[:, None]).to(out.dtype.element_ty)
    tl.store(out + (head * q_len + rows[:, None]) * D + offs_d, o, mask=rows[:, None] < q_len)


def _call(query, key, value, uses):
    query, key, value = (tensor.contiguous() for tensor in (query, key, value))
    batch, heads, q_len, head_dim = query.shape
    out = torch.empty_like(query)
    grid = (triton.cdiv(q_len, BLOCK), batch * heads)
    scale = head_dim**-0.5
    _attend[grid](query, key, value, out, q_len, key.shape[2], scale, D=head_dim, BLOCK=BLOCK, USES=uses)
    return out


def uses_it(query, key, value):
    return _call(query, key, value, uses=True)


def leaves_it(query, key, value):
    """Q and K name no value either, but what comes of their missing rows is masked, or is not stored."""
    return _call(query, key, value, uses=False)


@triton.jit
def _block_pointers(q, k, v, out, q_len, kv_len, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    head, first = tl.program_id(1), tl.program_id(0) * BLOCK
    q_at = tl.make_block_ptr(q + head * q_len * D, (q_len, D), (D, 1), (first, 0), (BLOCK, D), (1, 0))
    o_at = tl.make_block_ptr(out + head * q_len * D, (q_len, D), (D, 1), (first, 0), (BLOCK, D), (1, 0))
    k_at = tl.make_block_ptr(k + head * kv_len * D, (kv_len, D), (D, 1), (0, 0), (128, D), (1, 0))
    v_at = tl.make_block_ptr(v + head * kv_len * D, (kv_len, D), (D, 1), (0, 0), (128, D), (1, 0))
    q_tile = tl.load(q_at, boundary_check=(0,), padding_option="zero")
    k_tile = tl.load(k_at, boundary_check=(0,), padding_option="zero")
    v_tile = tl.load(v_at, boundary_check=(0,))
    scores = tl.dot(q_tile, tl.trans(k_tile)) * scale
    scores = tl.where(tl.arange(0, 128)[None, :] < kv_len, scores, float("-inf"))
    p = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    o = tl.dot(p.to(v_tile.dtype), v_tile) / tl.sum(p, axis=1)[:, None]
    tl.store(o_at, o.to(out.dtype.element_ty), boundary_check=(0,))


def block_pointer(query, key, value):
    batch, heads, q_len, head_dim = query.shape
    out = torch.empty_like(query)
    grid = (triton.cdiv(q_len, BLOCK), batch * heads)
    _block_pointers[grid](query, key, value, out, q_len, key.shape[2], head_dim**-0.5, head_dim, BLOCK)
    return out
