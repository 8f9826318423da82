"""Backward with the key tile outside, as one kernel: dQ travels to HBM and back at every step.

Chu, Liu and Lin 2026, algorithm 8. One program per batch and key head. dQ is kept in HBM in float32. The
project keeps this kernel to compare its traffic, not for its speed.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from kernels.algorithms.backward.launch import BackwardCall
from kernels.algorithms.backward.recording import record_after_mask, record_before_mask, record_tiles
from kernels.algorithms.backward_kv_outer.entry import BACKWARD
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
from kernels.primitives.tile_io import load_rows, load_tile, row_bytes, store_tile, tile_bytes, tile_view
from kernels.primitives.traversal import visiting_key_tile
from kernels.trace import LaunchInfo

import triton
import triton.language as tl

READ_K, READ_V, READ_Q, READ_DO, READ_LSE, READ_D, READ_DQ = read_columns(
    BACKWARD, "K", "V", "Q", "dO", "lse", "D", "dQ"
)
WRITE_DQ, WRITE_DK, WRITE_DV = write_columns(BACKWARD, "dQ", "dK", "dV")


@triton.jit
def _attn_bwd_kv_outer(
    query, key, value, d_out, sum_dq, d_key, d_value, lse_ptr, delta_ptr,
    q_strides, k_strides, v_strides, do_strides, sum_strides, dk_strides, dv_strides,
    kv_heads, group_size, band, scale, scale_log2, trace, max_steps,
    BOUND_LEFT: tl.constexpr, BOUND_RIGHT: tl.constexpr, DTYPE: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
    TRACE: tl.constexpr, TRACE_ACC: tl.constexpr,
):  # fmt: skip
    """All tiles of one key head. sum_dq (batch, q_heads, q_len, head_dim), float32, starts at 0."""
    ITEMSIZE: tl.constexpr = DTYPE.primitive_bitwidth // 8
    batch_kv_head = tl.program_id(0)
    batch, kv_head = batch_kv_head // kv_heads, batch_kv_head % kv_heads
    k_view = tile_view(key, k_strides, batch, kv_head, band.kv_len, False)
    v_view = tile_view(value, v_strides, batch, kv_head, band.kv_len, False)
    dk_view = tile_view(d_key, dk_strides, batch, kv_head, band.kv_len, False)
    dv_view = tile_view(d_value, dv_strides, batch, kv_head, band.kv_len, False)
    slot = batch_kv_head * max_steps
    for kv_tile in range(0, tl.cdiv(band.kv_len, BLOCK_N)):
        first_k = kv_tile * BLOCK_N
        offs_n = first_k + tl.arange(0, BLOCK_N)
        # [load K, V] (BLOCK_N, BLOCK_D)
        k = load_tile(k_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, False)
        v = load_tile(v_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, False)
        dk = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
        dv = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
        # [end]
        first_slot = slot
        if TRACE:
            kv_bytes = tile_bytes(first_k, band.kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, ITEMSIZE)
            record_where(trace, slot, batch_kv_head * group_size, -1, kv_tile)
            record_bytes(trace, slot, kv_bytes, READ_K)
            record_bytes(trace, slot, kv_bytes, READ_V)
        first_q_tile, _, _, end_q_tile = visiting_key_tile(kv_tile, band, BLOCK_M, BLOCK_N)
        q_tiles = tl.maximum(end_q_tile - first_q_tile, 0)
        for member_tile in range(0, group_size * q_tiles):
            head = kv_head * group_size + member_tile // q_tiles
            q_tile = first_q_tile + member_tile % q_tiles
            batch_head = batch * (kv_heads * group_size) + head
            first_q = q_tile * BLOCK_M
            offs_m = first_q + tl.arange(0, BLOCK_M)
            q_view = tile_view(query, q_strides, batch, head, band.q_len, False)
            do_view = tile_view(d_out, do_strides, batch, head, band.q_len, False)
            dq_view = tile_view(sum_dq, sum_strides, batch, head, band.q_len, False)
            rows = batch_head.to(tl.int64) * band.q_len
            if TRACE:
                record_start(trace, slot)
            # [load Q, dO] (BLOCK_M, BLOCK_D)
            q = load_tile(q_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, False)
            do = load_tile(do_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, False)
            # [QK^T] (BLOCK_N, BLOCK_M) = (BLOCK_N, BLOCK_D) @ (BLOCK_D, BLOCK_M)
            scores_t = matmul(k, tl.trans(q), tl.zeros((BLOCK_N, BLOCK_M), tl.float32), PRECISION)
            # [P from lse] (BLOCK_N, BLOCK_M)
            lse = load_lse(lse_ptr + rows, offs_m, band, BOUND_LEFT, BOUND_RIGHT)
            p_t = tl.exp2(scores_t * scale_log2 - lse[None, :])
            if TRACE:
                record_before_mask(trace, slot, scores_t, p_t, BLOCK_M, BLOCK_N)
            # [mask]
            p_t = mask_transposed(p_t, offs_m, offs_n, band, BOUND_LEFT, BOUND_RIGHT)
            # [dV] (BLOCK_N, BLOCK_D) += (BLOCK_N, BLOCK_M) @ (BLOCK_M, BLOCK_D)
            dv = matmul(to_operand(p_t, DTYPE), do, dv, PRECISION)
            # [dP] (BLOCK_N, BLOCK_M) = (BLOCK_N, BLOCK_D) @ (BLOCK_D, BLOCK_M)
            dp_t = matmul(v, tl.trans(do), tl.zeros((BLOCK_N, BLOCK_M), tl.float32), PRECISION)
            # [dS]
            delta = load_rows(delta_ptr + rows, offs_m, band.q_len, 0.0)
            ds_t = to_operand(p_t * (dp_t - delta[None, :]) * scale, DTYPE)
            # [dK] (BLOCK_N, BLOCK_D) += (BLOCK_N, BLOCK_M) @ (BLOCK_M, BLOCK_D)
            dk = matmul(ds_t, q, dk, PRECISION)
            # [load dQ] (BLOCK_M, BLOCK_D)
            dq = load_tile(dq_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, False)
            # [dQ] (BLOCK_M, BLOCK_D) += (BLOCK_M, BLOCK_N) @ (BLOCK_N, BLOCK_D)
            dq = matmul(tl.trans(ds_t), k, dq, PRECISION)
            # [store dQ]
            store_tile(dq_view, dq, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, tl.float32, False)
            # [end]
            tl.debug_barrier()  # the next key tile's load of dQ must see this store
            if TRACE:
                record_where(trace, slot, batch_head, q_tile, kv_tile)
                q_bytes = tile_bytes(first_q, band.q_len, HEAD_DIM, BLOCK_M, BLOCK_D, ITEMSIZE)
                sum_bytes = tile_bytes(first_q, band.q_len, HEAD_DIM, BLOCK_M, BLOCK_D, 4)
                n_bytes = row_bytes(first_q, band.q_len, BLOCK_M)
                record_bytes(trace, slot, q_bytes, READ_Q)
                record_bytes(trace, slot, q_bytes, READ_DO)
                record_bytes(trace, slot, n_bytes, READ_LSE)
                record_bytes(trace, slot, n_bytes, READ_D)
                record_bytes(trace, slot, sum_bytes, READ_DQ)
                record_bytes(trace, slot, sum_bytes, WRITE_DQ)
                share = tl.sum(tl.where((offs_n < band.kv_len)[:, None], p_t, 0.0), axis=0)
                record_rows(trace, slot, share, 0, BLOCK_M)
                record_tiles(trace, slot, q, k, v, do, lse, delta, BLOCK_M, BLOCK_N, BLOCK_D)
                record_after_mask(trace, slot, p_t, dp_t, ds_t, BLOCK_M, BLOCK_N)
                if TRACE_ACC:
                    record_acc(trace.acc, slot, dk, BLOCK_N, BLOCK_D)
                    record_acc(trace.acc_2, slot, dv, BLOCK_N, BLOCK_D)
                    record_acc(trace.acc_3, slot, dq, BLOCK_M, BLOCK_D)
                record_end(trace, slot)
                slot += 1
        # [store dK, dV]
        store_tile(dk_view, dk, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, DTYPE, False)
        store_tile(dv_view, dv, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, DTYPE, False)
        # [end]
        if TRACE:
            last_slot = tl.maximum(slot - 1, first_slot)
            record_bytes(trace, last_slot, kv_bytes, WRITE_DK)
            record_bytes(trace, last_slot, kv_bytes, WRITE_DV)
            slot = last_slot + 1


def flash_backward_kv_outer(
    call: BackwardCall,
    config: TileConfig,
    recorder: Recorder | None = None,
) -> LaunchInfo:
    """Fill d_query, d_key and d_value of a call whose delta is there; how the kernel was launched.

    torch writes dQ = 0 to HBM before the launch, and rounds it to the type of query after it.
    """
    config = replace(config, num_stages=1)  # a load must not run ahead of the store of the step before it
    query, key = call.query, call.key
    sum_dq = torch.zeros(query.shape, dtype=torch.float32, device=query.device)
    with on_device(query, config):
        compiled = _attn_bwd_kv_outer[(key.shape[0] * key.shape[1],)](
            query,
            key,
            call.value,
            call.d_out,
            sum_dq,
            call.d_key,
            call.d_value,
            call.lse,
            call.delta,
            q_strides=query.stride(),
            k_strides=key.stride(),
            v_strides=call.value.stride(),
            do_strides=call.d_out.stride(),
            sum_strides=sum_dq.stride(),
            dk_strides=call.d_key.stride(),
            dv_strides=call.d_value.stride(),
            kv_heads=key.shape[1],
            scale=call.scale,
            **problem_arguments(query, key, call.band, call.scale),
            **config_arguments(config, recorder),
        )
    call.d_query.copy_(sum_dq)
    return launch_info(config, compiled)
