"""Backward with the query tile outside: dK and dV travel to HBM and back at every step.

Chu, Liu and Lin 2026, algorithm 6. One program per batch and key head. dK and dV are kept in HBM in float32.
The project keeps this kernel to compare its traffic, not for its speed.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from kernels.algorithms.backward.recording import record_after_mask, record_before_mask, record_tiles
from kernels.algorithms.backward_q_outer.entry import BACKWARD
from kernels.primitives.launch import TileConfig, config_arguments, launch_info, on_device, problem_arguments
from kernels.primitives.masking import load_lse, mask_transposed
from kernels.primitives.numbers import matmul, to_operand
from kernels.primitives.recorder import (
    Recorder,
    read_columns,
    record_acc,
    record_bytes,
    record_end,
    record_rows,
    record_start,
    record_where,
    write_columns,
)
from kernels.primitives.tile_io import load_tile, row_bytes, store_tile, tile_bytes, tile_view
from kernels.primitives.traversal import end_visited_tile, first_visited_tile
from kernels.problem import Band
from kernels.trace import LaunchInfo

import triton
import triton.language as tl

READ_O, READ_DO, READ_LSE, READ_Q = read_columns(BACKWARD, "O", "dO", "lse", "Q")
READ_K, READ_V, READ_DK, READ_DV = read_columns(BACKWARD, "K", "V", "dK", "dV")
WRITE_DK, WRITE_DV, WRITE_DQ = write_columns(BACKWARD, "dK", "dV", "dQ")


@triton.jit
def _attn_bwd_q_outer(
    query, key, value, out, d_out, d_query, sum_dk, sum_dv, lse_ptr,
    q_strides, k_strides, v_strides, o_strides, do_strides, dq_strides, sum_strides,
    kv_heads, group_size, band, scale, scale_log2, trace, max_steps,
    BOUND_LEFT: tl.constexpr, BOUND_RIGHT: tl.constexpr, DTYPE: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
    TRACE: tl.constexpr, TRACE_ACC: tl.constexpr,
):  # fmt: skip
    """All tiles of one key head. sum_dk, sum_dv (batch, kv_heads, kv_len, head_dim), float32, start at 0."""
    ITEMSIZE: tl.constexpr = DTYPE.primitive_bitwidth // 8
    batch_kv_head = tl.program_id(0)
    batch, kv_head = batch_kv_head // kv_heads, batch_kv_head % kv_heads
    k_view = tile_view(key, k_strides, batch, kv_head, band.kv_len, False)
    v_view = tile_view(value, v_strides, batch, kv_head, band.kv_len, False)
    dk_view = tile_view(sum_dk, sum_strides, batch, kv_head, band.kv_len, False)
    dv_view = tile_view(sum_dv, sum_strides, batch, kv_head, band.kv_len, False)
    slot = batch_kv_head * max_steps
    q_tiles = tl.cdiv(band.q_len, BLOCK_M)
    for member_tile in range(0, group_size * q_tiles):
        head = kv_head * group_size + member_tile // q_tiles
        q_tile = member_tile % q_tiles
        batch_head = batch * (kv_heads * group_size) + head
        q_view = tile_view(query, q_strides, batch, head, band.q_len, False)
        o_view = tile_view(out, o_strides, batch, head, band.q_len, False)
        do_view = tile_view(d_out, do_strides, batch, head, band.q_len, False)
        first_q = q_tile * BLOCK_M
        offs_m = first_q + tl.arange(0, BLOCK_M)
        # [load O, dO, lse, Q] (BLOCK_M, BLOCK_D)
        o = load_tile(o_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, False)
        do = load_tile(do_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, False)
        delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), axis=1)
        lse_rows = lse_ptr + batch_head.to(tl.int64) * band.q_len
        lse = load_lse(lse_rows, offs_m, band, BOUND_LEFT, BOUND_RIGHT)
        q = load_tile(q_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, False)
        dq_t = tl.zeros((BLOCK_D, BLOCK_M), tl.float32)
        # [end]
        first_kv_tile = first_visited_tile(q_tile, band, BLOCK_M, BLOCK_N)
        end_kv_tile = end_visited_tile(q_tile, band, BLOCK_M, BLOCK_N)
        if TRACE:
            q_bytes = tile_bytes(first_q, band.q_len, HEAD_DIM, BLOCK_M, BLOCK_D, ITEMSIZE)
            record_where(trace, slot, batch_head, q_tile, -1)
            record_bytes(trace, slot, q_bytes, READ_O)
            record_bytes(trace, slot, q_bytes, READ_DO)
            record_bytes(trace, slot, q_bytes, READ_Q)
            record_bytes(trace, slot, row_bytes(first_q, band.q_len, BLOCK_M), READ_LSE)
            record_rows(trace, slot, delta * 0.0, 0, BLOCK_M)
        for kv_tile in range(first_kv_tile, end_kv_tile):
            first_k = kv_tile * BLOCK_N
            if TRACE:
                record_start(trace, slot)
            # [load K, V, dK, dV] (BLOCK_N, BLOCK_D)
            k = load_tile(k_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, False)
            v = load_tile(v_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, False)
            dk = load_tile(dk_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, False)
            dv = load_tile(dv_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, False)
            # [QK^T] (BLOCK_N, BLOCK_M) = (BLOCK_N, BLOCK_D) @ (BLOCK_D, BLOCK_M)
            scores_t = matmul(k, tl.trans(q), tl.zeros((BLOCK_N, BLOCK_M), tl.float32), PRECISION)
            # [P from lse] (BLOCK_N, BLOCK_M)
            p_t = tl.exp2(scores_t * scale_log2 - lse[None, :])
            if TRACE:
                record_before_mask(trace, slot, scores_t, p_t, BLOCK_M, BLOCK_N)
            # [mask]
            offs_n = first_k + tl.arange(0, BLOCK_N)
            p_t = mask_transposed(p_t, offs_m, offs_n, band, BOUND_LEFT, BOUND_RIGHT)
            # [dV] (BLOCK_N, BLOCK_D) += (BLOCK_N, BLOCK_M) @ (BLOCK_M, BLOCK_D)
            dv = matmul(to_operand(p_t, DTYPE), do, dv, PRECISION)
            # [dP] (BLOCK_N, BLOCK_M) = (BLOCK_N, BLOCK_D) @ (BLOCK_D, BLOCK_M)
            dp_t = matmul(v, tl.trans(do), tl.zeros((BLOCK_N, BLOCK_M), tl.float32), PRECISION)
            # [dS]
            ds_t = to_operand(p_t * (dp_t - delta[None, :]) * scale, DTYPE)
            # [dK] (BLOCK_N, BLOCK_D) += (BLOCK_N, BLOCK_M) @ (BLOCK_M, BLOCK_D)
            dk = matmul(ds_t, q, dk, PRECISION)
            # [dQ] (BLOCK_D, BLOCK_M) += (BLOCK_D, BLOCK_N) @ (BLOCK_N, BLOCK_M)
            dq_t = matmul(tl.trans(k), ds_t, dq_t, PRECISION)
            # [store dK, dV]
            store_tile(dk_view, dk, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, tl.float32, False)
            store_tile(dv_view, dv, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, tl.float32, False)
            # [end]
            tl.debug_barrier()  # the next query tile's loads of dK and dV must see these stores
            if TRACE:
                record_where(trace, slot, batch_head, q_tile, kv_tile)
                kv_bytes = tile_bytes(first_k, band.kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, ITEMSIZE)
                sum_bytes = tile_bytes(first_k, band.kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, 4)
                record_bytes(trace, slot, kv_bytes, READ_K)
                record_bytes(trace, slot, kv_bytes, READ_V)
                record_bytes(trace, slot, sum_bytes, READ_DK)
                record_bytes(trace, slot, sum_bytes, READ_DV)
                record_bytes(trace, slot, sum_bytes, WRITE_DK)
                record_bytes(trace, slot, sum_bytes, WRITE_DV)
                share = tl.sum(tl.where((offs_n < band.kv_len)[:, None], p_t, 0.0), axis=0)
                record_rows(trace, slot, share, 0, BLOCK_M)
                record_tiles(trace, slot, q, k, v, do, lse, delta, BLOCK_M, BLOCK_N, BLOCK_D)
                record_after_mask(trace, slot, p_t, dp_t, ds_t, BLOCK_M, BLOCK_N)
                if TRACE_ACC:
                    record_acc(trace.acc, slot, dk, BLOCK_N, BLOCK_D)
                    record_acc(trace.acc_2, slot, dv, BLOCK_N, BLOCK_D)
                    record_acc(trace.acc_3, slot, tl.trans(dq_t), BLOCK_M, BLOCK_D)
                record_end(trace, slot)
                slot += 1
        # [store dQ]
        dq_view = tile_view(d_query, dq_strides, batch, head, band.q_len, False)
        store_tile(dq_view, tl.trans(dq_t), first_q, HEAD_DIM, BLOCK_M, BLOCK_D, DTYPE, False)
        # [end]
        if TRACE:
            last_slot = slot
            if end_kv_tile > first_kv_tile:
                last_slot = slot - 1
            record_bytes(trace, last_slot, q_bytes, WRITE_DQ)
            slot = last_slot + 1


def flash_backward_q_outer(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    d_out: torch.Tensor,
    *,
    band: Band,
    scale: float,
    config: TileConfig,
    recorder: Recorder | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, LaunchInfo]:
    """dQ, dK and dV in the query-outer order, and how the kernel was launched.

    Arguments are those of `flash_backward`. torch writes dK = dV = 0 to HBM before the launch, and rounds
    both to the type of key after it.
    """
    config = replace(config, num_stages=1)  # a load must not run ahead of the stores of the step before it
    d_query = torch.empty_like(query)
    sum_dk, sum_dv = (torch.zeros(key.shape, dtype=torch.float32, device=key.device) for _ in range(2))
    with on_device(query, config):
        compiled = _attn_bwd_q_outer[(key.shape[0] * key.shape[1],)](
            query,
            key,
            value,
            out,
            d_out,
            d_query,
            sum_dk,
            sum_dv,
            lse,
            q_strides=query.stride(),
            k_strides=key.stride(),
            v_strides=value.stride(),
            o_strides=out.stride(),
            do_strides=d_out.stride(),
            dq_strides=d_query.stride(),
            sum_strides=sum_dk.stride(),
            kv_heads=key.shape[1],
            scale=scale,
            **problem_arguments(query, key, band, scale),
            **config_arguments(config, recorder),
        )
    return d_query, sum_dk.to(key.dtype), sum_dv.to(value.dtype), launch_info(config, compiled)
