"""FlashAttention-1 forward: key tiles outside, query tiles inside; O, m and l travel to HBM and back at every step.

Dao et al. 2022, "FlashAttention", algorithm 1; Chu, Liu and Lin 2026, algorithm 4. One program a batch and head, as the paper
runs it. O is kept normalised in HBM, in float32: rounded at every step it would lose a bit each time. `# [name]` marks phases.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from kernels.primitives.launch import (
    TileConfig,
    config_arguments,
    config_for_blocks,
    launch_info,
    on_device,
    problem_arguments,
)
from kernels.primitives.recorder import (
    DEVICE,
    Recorder,
    TileRows,
    assemble,
    make_recorder,
    record_acc,
    record_bytes,
    record_end,
    record_rows,
    record_start,
    record_where,
)
from kernels.primitives.softmax import (
    LN2,
    finite_or_zero,
    load_rows,
    load_tile,
    mask_scores,
    matmul,
    new_row_max,
    pure,
    store_rows,
    store_tile,
    tile_bytes,
    tile_view,
    to_operand,
)
from kernels.problem import AttentionProblem, tiles
from kernels.problem.inputs import make_inputs
from kernels.trace.trace import LaunchInfo, Trace

import triton
import triton.language as tl

REQUESTS = (
    ("Q", "read"), ("K", "read"), ("V", "read"), ("O", "read"), ("m", "read"), ("l", "read"),
    ("O", "write"), ("m", "write"), ("l", "write"), ("lse", "write"),
)  # fmt: skip
READ_Q, READ_K, READ_V, READ_O, READ_M, READ_L, WRITE_O, WRITE_M, WRITE_L, WRITE_LSE = (
    tl.constexpr(column) for column in range(len(REQUESTS))
)
ROW_FIELDS = ("row_max", "row_sum", "alpha")

first_visiting_tile = pure(tiles.first_visiting_tile)
end_visiting_tile = pure(tiles.end_visiting_tile)
end_visited_tile = pure(tiles.end_visited_tile)


@triton.jit
def _attn_fwd_kv_outer(
    query, key, value, out, state_o, state_m, state_l, lse_ptr, q_strides, k_strides, v_strides, o_strides, state_strides,
    q_heads, group_size, q_len, kv_len, left, right, scale_log2, trace, max_steps,
    BOUND_LEFT: tl.constexpr, BOUND_RIGHT: tl.constexpr, DTYPE: tl.constexpr,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr, TRACE: tl.constexpr, TRACE_ACC: tl.constexpr,
):  # fmt: skip
    """All tiles of one head. state_o (batch, q_heads, q_len, head_dim), state_m and state_l (batch, q_heads, q_len) are float32."""
    ITEMSIZE: tl.constexpr = DTYPE.primitive_bitwidth // 8
    batch_head = tl.program_id(0)
    batch, head = batch_head // q_heads, batch_head % q_heads
    q_view = tile_view(query, q_strides, batch, head, q_len, False)
    k_view = tile_view(key, k_strides, batch, head // group_size, kv_len, False)
    v_view = tile_view(value, v_strides, batch, head // group_size, kv_len, False)
    o_view = tile_view(out, o_strides, batch, head, q_len, False)
    s_view = tile_view(state_o, state_strides, batch, head, q_len, False)
    first_row = batch_head.to(tl.int64) * q_len
    slot = batch_head * max_steps
    for kv_tile in range(0, tl.cdiv(kv_len, BLOCK_N)):
        first_k = kv_tile * BLOCK_N
        # [load K, V] (BLOCK_N, BLOCK_D)
        k = load_tile(k_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, False)
        v = load_tile(v_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, False)
        # [end]
        first_q_tile = first_visiting_tile(kv_tile, q_len, kv_len, right, BLOCK_M, BLOCK_N)
        end_q_tile = end_visiting_tile(kv_tile, q_len, kv_len, left, BLOCK_M, BLOCK_N)
        if TRACE:
            kv_bytes = tile_bytes(first_k, kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, ITEMSIZE)
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
            m = load_rows(state_m + first_row, offs_m, q_len, float("-inf"))
            l = load_rows(state_l + first_row, offs_m, q_len, 0.0)
            # [QK^T] (BLOCK_M, BLOCK_N) = (BLOCK_M, BLOCK_D) @ (BLOCK_D, BLOCK_N)
            scores = matmul(q, tl.trans(k), tl.zeros((BLOCK_M, BLOCK_N), tl.float32), PRECISION)
            # [mask]
            scores = mask_scores(
                scores, offs_m, first_k, q_len, kv_len, left, right, BOUND_LEFT, BOUND_RIGHT, BLOCK_N
            )
            # [row max]
            m_new = new_row_max(m, scores, scale_log2)
            shift = finite_or_zero(m_new)
            # [exponentials]
            p = tl.exp2(scores * scale_log2 - shift[:, None])
            # [rescale]
            alpha = tl.exp2(m - shift)
            l_new = l * alpha + tl.sum(p, axis=1)
            weight = tl.where(l_new == 0.0, 0.0, 1.0 / l_new)  # rows that have seen no key so far stay 0
            o = o * (l * alpha * weight)[:, None]
            # [PV] (BLOCK_M, BLOCK_D) += (BLOCK_M, BLOCK_N) @ (BLOCK_N, BLOCK_D)
            pv = matmul(to_operand(p, DTYPE), v, tl.zeros((BLOCK_M, BLOCK_D), tl.float32), PRECISION)
            o = o + pv * weight[:, None]
            # [store O, m, l, lse] lse at the last visit, when O takes its final type
            last_visit = kv_tile + 1 == end_visited_tile(q_tile, q_len, kv_len, right, BLOCK_M, BLOCK_N)
            store_rows(state_m + first_row, offs_m, q_len, m_new)
            store_rows(state_l + first_row, offs_m, q_len, l_new)
            if last_visit:
                store_tile(o_view, o, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, DTYPE, False)
                store_rows(lse_ptr + first_row, offs_m, q_len, m_new * LN2 + tl.log(l_new))
            else:
                store_tile(s_view, o, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, tl.float32, False)
            # [end]
            tl.debug_barrier()  # the next key tile's loads of O, m and l must see these stores
            if TRACE:
                record_where(trace, slot, batch_head, q_tile, kv_tile)
                record_bytes(
                    trace, slot, tile_bytes(first_q, q_len, HEAD_DIM, BLOCK_M, BLOCK_D, ITEMSIZE), READ_Q
                )
                state_bytes = tile_bytes(first_q, q_len, HEAD_DIM, BLOCK_M, BLOCK_D, 4)
                row_bytes = tile_bytes(first_q, q_len, 1, BLOCK_M, 1, 4)
                record_bytes(trace, slot, state_bytes, READ_O)
                record_bytes(trace, slot, row_bytes, READ_M)
                record_bytes(trace, slot, row_bytes, READ_L)
                record_bytes(trace, slot, row_bytes, WRITE_M)
                record_bytes(trace, slot, row_bytes, WRITE_L)
                if last_visit:
                    record_bytes(trace, slot, state_bytes * ITEMSIZE // 4, WRITE_O)
                    record_bytes(trace, slot, row_bytes, WRITE_LSE)
                else:
                    record_bytes(trace, slot, state_bytes, WRITE_O)
                record_rows(trace, slot, m_new * LN2, 0, BLOCK_M)
                record_rows(trace, slot, l_new, 1, BLOCK_M)
                record_rows(trace, slot, alpha, 2, BLOCK_M)
                if TRACE_ACC:
                    record_acc(trace.acc, slot, o, BLOCK_M, BLOCK_D)
                record_end(trace, slot)
                slot += 1
        if TRACE and end_q_tile <= first_q_tile:
            slot += 1  # nobody sees this key tile, but it was loaded


def flash_forward_kv_outer(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *,
    left: int, right: int, scale: float, config: TileConfig, recorder: Recorder | None = None,
) -> tuple[torch.Tensor, torch.Tensor, LaunchInfo]:  # fmt: skip
    """Launch `_attn_fwd_kv_outer`; arguments and results as of `flash_forward`. Kept for comparison: it is the slower algorithm.

    O = 0, l = 0 and m = -inf are written to HBM by torch beforehand (the paper's line 2), outside what is traced.
    """
    batch, q_heads, q_len, head_dim = query.shape
    config = replace(config, num_stages=1)  # a load must not run ahead of the stores of the step before it
    float32 = {"dtype": torch.float32, "device": query.device}
    out, state_o = torch.zeros_like(query), torch.zeros((batch, q_heads, q_len, head_dim), **float32)
    state_m, lse = (torch.full((batch, q_heads, q_len), float("-inf"), **float32) for _ in range(2))
    state_l = torch.zeros((batch, q_heads, q_len), **float32)
    with on_device(query, config):
        compiled = _attn_fwd_kv_outer[(batch * q_heads,)](
            query, key, value, out, state_o, state_m, state_l, lse,
            q_strides=query.stride(), k_strides=key.stride(), v_strides=value.stride(), o_strides=out.stride(), state_strides=state_o.stride(),
            q_heads=q_heads, **problem_arguments(query, key, left, right, scale), **config_arguments(config, recorder),
        )  # fmt: skip
    return out, lse, launch_info(config, compiled)


def run_traced(problem: AttentionProblem) -> Trace:
    """Run the kernel on the problem's own inputs and tiles with TRACE on."""
    query, key, value = make_inputs(problem, DEVICE)
    left, right = tiles.band(problem)
    config = config_for_blocks(problem.block_m, problem.block_n, problem.head_dim, problem.itemsize)
    rows = TileRows("", "q_tile", problem.block_m, problem.q_len)
    heads, steps = problem.batch * problem.q_heads, problem.q_tiles * problem.kv_tiles
    recorder = make_recorder(
        "_attn_fwd_kv_outer",
        REQUESTS,
        ROW_FIELDS,
        rows,
        (rows._replace(field="acc"),),
        heads,
        steps,
        problem.head_dim,
    )
    out, lse, launch = flash_forward_kv_outer(
        query, key, value, left=left, right=right, scale=problem.scale, config=config, recorder=recorder
    )
    return assemble(problem, "flash1", [(recorder, launch)], output=out, lse=lse)
