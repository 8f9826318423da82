"""FlashAttention-1 forward: key tiles in the outer loop, query tiles in the inner one.

O, m and l travel to HBM and back at every step. Dao et al. 2022 (FlashAttention), algorithm 1; Chu, Liu and
Lin 2026, algorithm 4. One program per batch and head, as in Dao et al. 2022. Between steps HBM holds O
normalised and in float32: rounded to 16 bits at every step, it would lose a bit each time.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from kernels.algorithms.flash1.entry import FORWARD
from kernels.primitives.launch import TileConfig, config_arguments, launch_info, on_device, problem_arguments
from kernels.primitives.masking import mask_scores
from kernels.primitives.numbers import LN2, matmul, to_operand
from kernels.primitives.online_softmax import online_softmax
from kernels.primitives.recorder import (
    Recorder,
    matrix_numbers,
    read_columns,
    record_acc,
    record_bytes,
    record_end,
    record_matrix,
    record_start,
    record_state,
    record_where,
    write_columns,
)
from kernels.primitives.tile_io import (
    load_rows,
    load_tile,
    row_bytes,
    store_rows,
    store_tile,
    tile_bytes,
    tile_view,
)
from kernels.primitives.traversal import end_visited_tile, end_visiting_tile, first_visiting_tile
from kernels.problem import Band
from kernels.trace import LaunchInfo

import triton
import triton.language as tl

READ_Q, READ_K, READ_V, READ_O, READ_M, READ_L = read_columns(FORWARD, "Q", "K", "V", "O", "m", "l")
WRITE_O, WRITE_M, WRITE_L, WRITE_LSE = write_columns(FORWARD, "O", "m", "l", "lse")
Q, K, QK, S, P, V, OLD_O, RESCALED = matrix_numbers(
    FORWARD, "Q", "K", "QK^T", "S", "P", "V", "O from HBM", "O rescaled"
)


@triton.jit
def _attn_fwd_kv_outer(
    query, key, value, out, state_o, state_m, state_l, lse_ptr,
    q_strides, k_strides, v_strides, o_strides, state_strides,
    q_heads, group_size, band, scale_log2, trace, max_steps,
    BOUND_LEFT: tl.constexpr, BOUND_RIGHT: tl.constexpr, DTYPE: tl.constexpr,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr, TRACE: tl.constexpr, TRACE_ACC: tl.constexpr,
):  # fmt: skip
    """All tiles of one head.

    state_o is (batch, q_heads, q_len, head_dim), state_m and state_l are (batch, q_heads, q_len), all
    float32.
    """
    ITEMSIZE: tl.constexpr = DTYPE.primitive_bitwidth // 8
    batch_head = tl.program_id(0)
    batch, head = batch_head // q_heads, batch_head % q_heads
    q_view = tile_view(query, q_strides, batch, head, band.q_len, False)
    k_view = tile_view(key, k_strides, batch, head // group_size, band.kv_len, False)
    v_view = tile_view(value, v_strides, batch, head // group_size, band.kv_len, False)
    o_view = tile_view(out, o_strides, batch, head, band.q_len, False)
    s_view = tile_view(state_o, state_strides, batch, head, band.q_len, False)
    first_row = batch_head.to(tl.int64) * band.q_len
    slot = batch_head * max_steps
    for kv_tile in range(0, tl.cdiv(band.kv_len, BLOCK_N)):
        first_k = kv_tile * BLOCK_N
        # [load K, V] (BLOCK_N, BLOCK_D)
        k = load_tile(k_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, False)
        v = load_tile(v_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, False)
        # [end]
        first_q_tile = first_visiting_tile(kv_tile, band, BLOCK_M, BLOCK_N)
        end_q_tile = end_visiting_tile(kv_tile, band, BLOCK_M, BLOCK_N)
        if TRACE:
            kv_bytes = tile_bytes(first_k, band.kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, ITEMSIZE)
            record_where(trace, slot, batch_head, -1, kv_tile)
            record_bytes(trace, slot, kv_bytes, READ_K)
            record_bytes(trace, slot, kv_bytes, READ_V)
        for q_tile in range(first_q_tile, end_q_tile):
            first_q = q_tile * BLOCK_M
            offs_m = first_q + tl.arange(0, BLOCK_M)
            if TRACE:
                record_start(trace, slot)
            # [load Q, O, m, l] (BLOCK_M, BLOCK_D)
            q = load_tile(q_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, False)
            o = load_tile(s_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, False)
            m = load_rows(state_m + first_row, offs_m, band.q_len, float("-inf"))
            l = load_rows(state_l + first_row, offs_m, band.q_len, 0.0)
            # [QK^T] (BLOCK_M, BLOCK_N) = (BLOCK_M, BLOCK_D) @ (BLOCK_D, BLOCK_N)
            scores = matmul(q, tl.trans(k), tl.zeros((BLOCK_M, BLOCK_N), tl.float32), PRECISION)
            if TRACE:
                record_matrix(trace, slot, q, Q, BLOCK_M, BLOCK_D)
                record_matrix(trace, slot, k, K, BLOCK_N, BLOCK_D)
                record_matrix(trace, slot, v, V, BLOCK_N, BLOCK_D)
                record_matrix(trace, slot, o, OLD_O, BLOCK_M, BLOCK_D)
                record_matrix(trace, slot, scores, QK, BLOCK_M, BLOCK_N)
            # [mask]
            scores = mask_scores(scores, offs_m, first_k, band, BOUND_LEFT, BOUND_RIGHT, BLOCK_N)
            # [row max]
            p, m_new, l_new, alpha = online_softmax(scores, m, l, scale_log2)
            # [rescale]
            weight = tl.where(l_new == 0.0, 0.0, 1.0 / l_new)  # rows that have seen no key so far stay 0
            o = o * (l * alpha * weight)[:, None]
            if TRACE:
                record_matrix(trace, slot, scores, S, BLOCK_M, BLOCK_N)
                record_matrix(trace, slot, p, P, BLOCK_M, BLOCK_N)
                record_matrix(trace, slot, o, RESCALED, BLOCK_M, BLOCK_D)
            # [PV] (BLOCK_M, BLOCK_D) += (BLOCK_M, BLOCK_N) @ (BLOCK_N, BLOCK_D)
            pv = matmul(to_operand(p, DTYPE), v, tl.zeros((BLOCK_M, BLOCK_D), tl.float32), PRECISION)
            o = o + pv * weight[:, None]
            # [store O, m, l, lse] lse at the last visit, when O takes its final type
            last_visit = kv_tile + 1 == end_visited_tile(q_tile, band, BLOCK_M, BLOCK_N)
            store_rows(state_m + first_row, offs_m, band.q_len, m_new)
            store_rows(state_l + first_row, offs_m, band.q_len, l_new)
            if last_visit:
                store_tile(o_view, o, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, DTYPE, False)
                store_rows(lse_ptr + first_row, offs_m, band.q_len, m_new * LN2 + tl.log(l_new))
            else:
                store_tile(s_view, o, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, tl.float32, False)
            # [end]
            tl.debug_barrier()  # the next key tile's loads of O, m and l must see these stores
            if TRACE:
                record_where(trace, slot, batch_head, q_tile, kv_tile)
                q_bytes = tile_bytes(first_q, band.q_len, HEAD_DIM, BLOCK_M, BLOCK_D, ITEMSIZE)
                o_bytes = tile_bytes(first_q, band.q_len, HEAD_DIM, BLOCK_M, BLOCK_D, 4)
                n_bytes = row_bytes(first_q, band.q_len, BLOCK_M)
                record_bytes(trace, slot, q_bytes, READ_Q)
                record_bytes(trace, slot, o_bytes, READ_O)
                record_bytes(trace, slot, n_bytes, READ_M)
                record_bytes(trace, slot, n_bytes, READ_L)
                record_bytes(trace, slot, n_bytes, WRITE_M)
                record_bytes(trace, slot, n_bytes, WRITE_L)
                if last_visit:
                    record_bytes(trace, slot, q_bytes, WRITE_O)
                    record_bytes(trace, slot, n_bytes, WRITE_LSE)
                else:
                    record_bytes(trace, slot, o_bytes, WRITE_O)
                record_state(trace, slot, m_new, l_new, alpha, BLOCK_M)
                if TRACE_ACC:
                    record_acc(trace.acc, slot, o, BLOCK_M, BLOCK_D)
                record_end(trace, slot)
                slot += 1
        if TRACE and end_q_tile <= first_q_tile:
            slot += 1  # no query sees this key tile, but it was loaded


def flash_forward_kv_outer(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    band: Band,
    scale: float,
    config: TileConfig,
    recorder: Recorder | None = None,
) -> tuple[torch.Tensor, torch.Tensor, LaunchInfo]:
    """Launch `_attn_fwd_kv_outer`; arguments and results are those of `flash_forward`.

    The project keeps this kernel for comparison: it is slower than FlashAttention-2. Before the
    launch torch writes O = 0, l = 0 and m = -inf to HBM (Dao et al. 2022, algorithm 1, line 2); the trace
    leaves that out.
    """
    batch, q_heads, q_len, head_dim = query.shape
    config = replace(config, num_stages=1)  # a load must not run ahead of the stores of the step before it
    minus_infinity, device = float("-inf"), query.device
    out = torch.zeros_like(query)
    state_o = torch.zeros((batch, q_heads, q_len, head_dim), dtype=torch.float32, device=device)
    state_m = torch.full((batch, q_heads, q_len), minus_infinity, dtype=torch.float32, device=device)
    lse = torch.full_like(state_m, minus_infinity)
    state_l = torch.zeros_like(state_m)
    with on_device(query, config):
        compiled = _attn_fwd_kv_outer[(batch * q_heads,)](
            query,
            key,
            value,
            out,
            state_o,
            state_m,
            state_l,
            lse,
            q_strides=query.stride(),
            k_strides=key.stride(),
            v_strides=value.stride(),
            o_strides=out.stride(),
            state_strides=state_o.stride(),
            q_heads=q_heads,
            **problem_arguments(query, key, band, scale),
            **config_arguments(config, recorder),
        )
    return out, lse, launch_info(config, compiled)
