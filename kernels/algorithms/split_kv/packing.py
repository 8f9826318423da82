"""Packed rows: row r of a key head is query r % q_len of head r // q_len of the group that shares it."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def packed_pointers(tensor, strides, batch, kv_head, group_size, q_len, rows, offs_d):
    """(rows, columns) pointers into a (batch, q_heads, q_len, head_dim) tensor."""
    heads = kv_head * group_size + rows // q_len
    head_start = tensor + batch.to(tl.int64) * strides[0] + heads.to(tl.int64) * strides[1]
    row_start = head_start + (rows % q_len).to(tl.int64) * strides[2]
    return row_start[:, None] + offs_d[None, :] * strides[3]
