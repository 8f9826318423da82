"""A small FlashAttention in Triton, forward and backward. `test_planted` plants mistakes in it."""

import math

import torch

import triton
import triton.language as tl

CHECK = {"causal": "bottom_right", "gqa": True}
BLOCK = tl.constexpr(32)


@triton.jit
def _rows(base, strides, batch, head, rows, n_rows, offs_d, D: tl.constexpr):
    """Pointers to rows of one head, and which of them exist."""
    first = batch.to(tl.int64) * strides[0] + head.to(tl.int64) * strides[1]
    offsets = first + rows[:, None] * strides[2] + offs_d[None, :] * strides[3]
    return base + offsets, (rows[:, None] < n_rows) & (offs_d[None, :] < D)


@triton.jit
def _forward(
    q, k, v, out, lse, q_strides, k_strides, v_strides, o_strides, heads, group, q_len, kv_len, scale,
    D: tl.constexpr, BLOCK_D: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    batch, head = tl.program_id(1) // heads, tl.program_id(1) % heads
    kv_head, kv_batch = head // group, batch
    rows, offs_d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK_D)
    diagonal = rows[:, None] + kv_len - q_len
    m = tl.full((BLOCK,), float("-inf"), tl.float32)
    l = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, BLOCK_D), tl.float32)
    q_ptrs, q_exist = _rows(q, q_strides, batch, head, rows, q_len, offs_d, D)
    q_tile = tl.load(q_ptrs, mask=q_exist, other=0.0)
    end = kv_len
    for first in range(0, end, BLOCK):
        keys = first + tl.arange(0, BLOCK)
        v_keys = keys
        k_ptrs, k_exist = _rows(k, k_strides, kv_batch, kv_head, keys, kv_len, offs_d, D)
        v_ptrs, v_exist = _rows(v, v_strides, kv_batch, kv_head, v_keys, kv_len, offs_d, D)
        k_tile = tl.load(k_ptrs, mask=k_exist, other=0.0)
        v_tile = tl.load(v_ptrs, mask=v_exist, other=0.0)
        scores = tl.dot(q_tile, tl.trans(k_tile)) * scale
        visible = keys[None, :] < kv_len
        if CAUSAL:
            visible = visible & (keys[None, :] <= diagonal)
        scores = tl.where(visible, scores, float("-inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        p = tl.exp(scores - safe[:, None])
        alpha = tl.exp(m - safe)
        l = l * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v_tile.dtype), v_tile)
        m = m_new
    divisor = tl.where(l == 0.0, 1.0, l)
    o_ptrs, o_exist = _rows(out, o_strides, batch, head, rows, q_len, offs_d, D)
    tl.store(o_ptrs, (acc / divisor[:, None]).to(out.dtype.element_ty), mask=o_exist)
    row_lse = m + tl.log(l)
    tl.store(lse + tl.program_id(1) * q_len + rows, row_lse, mask=rows < q_len)


@triton.jit
def _load(base, strides, batch, head, rows, n_rows, offs_d, D: tl.constexpr):
    pointers, exist = _rows(base, strides, batch, head, rows, n_rows, offs_d, D)
    return tl.load(pointers, mask=exist, other=0.0).to(tl.float32)


@triton.jit
def _backward(
    q, k, v, do, lse, delta, dq, dk, dv, q_strides, k_strides, v_strides, do_strides, heads, group, q_len,
    kv_len, scale, D: tl.constexpr, BLOCK_D: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """One program per batch and key head, which adds to float32 dQ, dK and dV of its own."""
    kv_heads, offs_d = heads // group, tl.arange(0, BLOCK_D)
    batch, kv_head = tl.program_id(0) // kv_heads, tl.program_id(0) % kv_heads
    shape = (heads * q_len * D, q_len * D, D, 1)
    kv_shape = (heads // group * kv_len * D, kv_len * D, D, 1)
    q_end, keep = q_len, 1.0
    tiles = tl.cdiv(q_end, BLOCK)
    for step in range(0, group * tiles):
        head, first = kv_head * group + step // tiles, step % tiles * BLOCK
        of_rows = (batch * heads + head) * q_len
        rows = first + tl.arange(0, BLOCK)
        allowed = rows[:, None] + kv_len - q_len
        q_tile = _load(q, q_strides, batch, head, rows, q_len, offs_d, D)
        do_tile = _load(do, do_strides, batch, head, rows, q_len, offs_d, D)
        row_lse = tl.load(lse + of_rows + rows, mask=rows < q_len, other=0.0)
        row_delta = tl.load(delta + of_rows + rows, mask=rows < q_len, other=0.0)
        dq_tile = tl.zeros((BLOCK, BLOCK_D), tl.float32)
        for start in range(0, kv_len, BLOCK):
            keys = start + tl.arange(0, BLOCK)
            k_tile = _load(k, k_strides, batch, kv_head, keys, kv_len, offs_d, D)
            v_tile = _load(v, v_strides, batch, kv_head, keys, kv_len, offs_d, D)
            visible = (rows[:, None] < q_len) & (keys[None, :] < kv_len)
            if CAUSAL:
                visible = visible & (keys[None, :] <= allowed)
            scores = tl.dot(q_tile, tl.trans(k_tile)) * scale
            p = tl.where(visible, tl.exp(scores - row_lse[:, None]), 0.0)
            ds = p * (tl.dot(do_tile, tl.trans(v_tile)) - row_delta[:, None]) * scale
            dq_tile += tl.dot(ds, k_tile)
            dk_ptrs, exist = _rows(dk, kv_shape, batch, kv_head, keys, kv_len, offs_d, D)
            dv_ptrs, _ = _rows(dv, kv_shape, batch, kv_head, keys, kv_len, offs_d, D)
            tl.store(dk_ptrs, keep * tl.load(dk_ptrs, mask=exist) + tl.dot(tl.trans(ds), q_tile), mask=exist)
            tl.store(dv_ptrs, keep * tl.load(dv_ptrs, mask=exist) + tl.dot(tl.trans(p), do_tile), mask=exist)
        dq_ptrs, exist = _rows(dq, shape, batch, head, rows, q_len, offs_d, D)
        tl.store(dq_ptrs, dq_tile, mask=exist)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, causal, scale):
        batch, heads, q_len, head_dim = query.shape
        kv_heads, kv_len = key.shape[1:3]
        out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        lse = torch.empty(query.shape[:3], dtype=torch.float32, device=query.device)
        tiles = triton.cdiv(q_len, 32)
        strides = [tensor.stride() for tensor in (query, key, value, out)]
        padded = 1 << (head_dim - 1).bit_length()
        ctx.options = (heads, heads // kv_heads, q_len, kv_len, scale, head_dim, padded, causal)
        if tiles:
            _forward[tiles, batch * heads](query, key, value, out, lse, *strides, *ctx.options)
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, d_out, _):
        query, key, value, out, lse = ctx.saved_tensors
        delta = (out.float() * d_out.float()).sum(dim=-1).contiguous()
        gradients = [torch.zeros(t.shape, dtype=torch.float32, device=t.device) for t in (query, key, value)]
        strides = [tensor.stride() for tensor in (query, key, value, d_out)]
        programs = query.shape[0] * key.shape[1]
        _backward[(programs,)](query, key, value, d_out, lse, delta, *gradients, *strides, *ctx.options)
        return *(gradient.to(query.dtype) for gradient in gradients), None, None


def right(query, key, value, is_causal=False, scale=None):
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return _Attention.apply(query, key, value, is_causal, scale)
