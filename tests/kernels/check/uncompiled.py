"""Kernels that Triton's interpreter runs, and right, but that its compiler refuses."""

import torch

import triton
import triton.language as tl

BLOCK = 32


@triton.jit
def _scores(q_tile, k_tile, keys, kv_len, scale, BUG: tl.constexpr):
    scores = tl.dot(q_tile, tl.trans(k_tile)) * scale
    if BUG == "list_in_helper":
        return tl.where(keys[None, :] < kv_len, scores, min([float("-inf"), 0.0]))
    return tl.where(keys[None, :] < kv_len, scores, float("-inf"))


@triton.jit
def _attend(q, k, v, out, q_len, kv_len, scale, D: tl.constexpr, BUG: tl.constexpr, SIZE: tl.constexpr):
    head, offs_d = tl.program_id(1), tl.arange(0, D)
    rows = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    m = tl.full((SIZE,), float("-inf"), tl.float32)
    l = tl.zeros((SIZE,), tl.float32)
    acc = tl.zeros((SIZE, D), tl.float32)
    if BUG == "type_changes":
        l = 0
    exist = rows[:, None] < q_len
    q_tile = tl.load(q + (head * q_len + rows[:, None]) * D + offs_d, mask=exist, other=0.0)
    step = SIZE
    if BUG == "global_number":
        step = BLOCK
    for first in range(0, kv_len, step):
        keys = first + tl.arange(0, SIZE)
        inside = keys[:, None] < kv_len
        k_tile = tl.load(k + (head * kv_len + keys[:, None]) * D + offs_d, mask=inside, other=0.0)
        v_tile = tl.load(v + (head * kv_len + keys[:, None]) * D + offs_d, mask=inside, other=0.0)
        scores = _scores(q_tile, k_tile, keys, kv_len, scale, BUG)
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        p = tl.exp(scores - m_new[:, None])
        alpha = tl.exp(m - m_new)
        l = l * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v_tile.dtype), v_tile)
        m = m_new
    o = (acc / l[:, None]).to(out.dtype.element_ty)
    tl.store(out + (head * q_len + rows[:, None]) * D + offs_d, o, mask=rows[:, None] < q_len)


def _with(bug):
    def attention(query, key, value):
        query, key, value = (tensor.contiguous() for tensor in (query, key, value))
        batch, heads, q_len, head_dim = query.shape
        out = torch.empty_like(query)
        grid = (triton.cdiv(q_len, 32), batch * heads)
        scale = head_dim**-0.5
        _attend[grid](query, key, value, out, q_len, key.shape[2], scale, D=head_dim, BUG=bug, SIZE=32)
        return out

    return attention


right = _with("")
type_changes = _with("type_changes")
global_number = _with("global_number")
list_in_helper = _with("list_in_helper")
