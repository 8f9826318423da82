"""FlashAttention-2 forward: one program a query tile, key and value tiles streamed past it.

Dao 2023, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", algorithm 1. A comment
`# [name]` starts a phase of a tile step; the player highlights these very lines while it shows that phase.
"""

from __future__ import annotations

import torch

from kernels.primitives.launch import (
    TRITON_DTYPES,
    TileConfig,
    can_use_tma,
    config_for_blocks,
    launch_info,
    on_device,
    tile_arguments,
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
    LOG2E,
    finite_or_zero,
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

import triton  # isort: skip
import triton.language as tl  # isort: skip

REQUESTS = (("Q", "read"), ("K", "read"), ("V", "read"), ("O", "write"), ("lse", "write"))
READ_Q, READ_K, READ_V, WRITE_O, WRITE_LSE = (tl.constexpr(column) for column in range(len(REQUESTS)))
ROW_FIELDS = ("row_max", "row_sum", "alpha")

first_visited_tile = pure(tiles.first_visited_tile)
end_visited_tile = pure(tiles.end_visited_tile)
first_full_tile = pure(tiles.first_full_tile)
end_full_tile = pure(tiles.end_full_tile)
last_tiles_first = pure(tiles.last_tiles_first)


@triton.jit
def _attn_fwd_inner(
    acc, l, m, q, k_view, v_view, first_tile, end_tile, batch_head, q_tile, q_len, kv_len, left, right, scale_log2, trace, slot,
    MASKED: tl.constexpr, BOUND_LEFT: tl.constexpr, BOUND_RIGHT: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, DTYPE: tl.constexpr, ITEMSIZE: tl.constexpr,
    PRECISION: tl.constexpr, USE_TMA: tl.constexpr, TRACE: tl.constexpr, TRACE_ACC: tl.constexpr,
):  # fmt: skip
    """Attend to key tiles [first_tile, end_tile). acc (BLOCK_M, BLOCK_D), l and m (BLOCK_M,) are float32."""
    offs_m = q_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    for kv_tile in tl.range(first_tile, end_tile):
        first_k = kv_tile * BLOCK_N
        if TRACE:
            record_start(trace, slot)
        # [load K] (BLOCK_N, BLOCK_D)
        k = load_tile(k_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, USE_TMA)
        # [QK^T] (BLOCK_M, BLOCK_N) = (BLOCK_M, BLOCK_D) @ (BLOCK_D, BLOCK_N)
        scores = matmul(q, tl.trans(k), tl.zeros((BLOCK_M, BLOCK_N), tl.float32), PRECISION)
        if MASKED:
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
        l = l * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None]
        m = m_new
        # [load V] (BLOCK_N, BLOCK_D)
        v = load_tile(v_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, USE_TMA)
        # [PV] (BLOCK_M, BLOCK_D) += (BLOCK_M, BLOCK_N) @ (BLOCK_N, BLOCK_D)
        acc = matmul(to_operand(p, DTYPE), v, acc, PRECISION)
        # [end]
        if TRACE:
            record_where(trace, slot, batch_head, q_tile, kv_tile)
            n_bytes = tile_bytes(first_k, kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, ITEMSIZE)
            record_bytes(trace, slot, n_bytes, READ_K)
            record_bytes(trace, slot, n_bytes, READ_V)
            record_rows(trace, slot, m * LN2, 0, BLOCK_M)
            record_rows(trace, slot, l, 1, BLOCK_M)
            record_rows(trace, slot, alpha, 2, BLOCK_M)
            if TRACE_ACC:
                record_acc(trace.acc, slot, acc, BLOCK_M, BLOCK_D)
            record_end(trace, slot)
            slot += 1
    return acc, l, m, slot


@triton.jit
def _attn_fwd(
    query, key, value, out, lse_ptr, q_strides, k_strides, v_strides, o_strides,
    heads_in_turn, q_heads, group_size, q_len, kv_len, left, right, scale_log2, trace, max_steps,
    BOUND_LEFT: tl.constexpr, BOUND_RIGHT: tl.constexpr, RAGGED: tl.constexpr, DTYPE: tl.constexpr,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr, USE_TMA: tl.constexpr, TRACE: tl.constexpr, TRACE_ACC: tl.constexpr,
):  # fmt: skip
    """One query tile of one head. lse is (batch, q_heads, q_len), contiguous; strides are (batch, head, row, column)."""
    ITEMSIZE: tl.constexpr = DTYPE.primitive_bitwidth // 8
    q_tiles = tl.cdiv(q_len, BLOCK_M)
    batch_head, q_tile = last_tiles_first(
        tl.program_id(0), heads_in_turn, q_tiles, tl.num_programs(0) // q_tiles
    )
    batch, head = batch_head // q_heads, batch_head % q_heads
    q_view = tile_view(query, q_strides, batch, head, q_len, USE_TMA)
    k_view = tile_view(key, k_strides, batch, head // group_size, kv_len, USE_TMA)
    v_view = tile_view(value, v_strides, batch, head // group_size, kv_len, USE_TMA)
    o_view = tile_view(out, o_strides, batch, head, q_len, USE_TMA)
    first_q = q_tile * BLOCK_M
    # [load Q] (BLOCK_M, BLOCK_D)
    q = load_tile(q_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, USE_TMA)
    m = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    # [end]
    first_slot = (batch_head * q_tiles + q_tile) * max_steps
    slot = first_slot
    if TRACE:  # stays as it is where the mask leaves this query tile no key tile
        record_where(trace, slot, batch_head, q_tile, -1)
        record_bytes(trace, slot, tile_bytes(first_q, q_len, HEAD_DIM, BLOCK_M, BLOCK_D, ITEMSIZE), READ_Q)
        record_rows(trace, slot, m, 0, BLOCK_M)
        record_rows(trace, slot, l, 1, BLOCK_M)
        record_rows(trace, slot, l + 1, 2, BLOCK_M)
        if TRACE_ACC:
            record_acc(trace.acc, slot, acc, BLOCK_M, BLOCK_D)

    first = first_visited_tile(q_tile, q_len, kv_len, left, BLOCK_M, BLOCK_N)
    end = end_visited_tile(q_tile, q_len, kv_len, right, BLOCK_M, BLOCK_N)
    first_full = min(max(first_full_tile(q_tile, q_len, kv_len, left, BLOCK_M, BLOCK_N), first), end)
    end_full = min(max(end_full_tile(q_tile, q_len, kv_len, right, BLOCK_M, BLOCK_N), first_full), end)
    for PART in tl.static_range(3):
        # Tiles that the left bound cuts, whole tiles, tiles that the right bound or the end of the keys cuts.
        if PART == 0:
            from_tile, to_tile = first, first_full
        elif PART == 1:
            from_tile, to_tile = first_full, end_full
        else:
            from_tile, to_tile = end_full, end
        if (PART == 0 and BOUND_LEFT) or PART == 1 or (PART == 2 and (BOUND_RIGHT or RAGGED)):
            acc, l, m, slot = _attn_fwd_inner(
                acc, l, m, q, k_view, v_view, from_tile, to_tile, batch_head, q_tile, q_len, kv_len, left, right, scale_log2, trace, slot,
                PART != 1, BOUND_LEFT, BOUND_RIGHT, HEAD_DIM, BLOCK_M, BLOCK_N, BLOCK_D, DTYPE, ITEMSIZE,
                PRECISION, USE_TMA, TRACE, TRACE_ACC,
            )  # fmt: skip

    # [store O, lse]
    o = acc * (1.0 / l)[:, None]
    lse = m * LN2 + tl.log(l)
    offs_m = first_q + tl.arange(0, BLOCK_M)
    if BOUND_LEFT or BOUND_RIGHT:  # a row that sees no key gives 0 and -inf, not the 0 / 0 of its empty sums
        diagonal = offs_m + (kv_len - q_len)
        sees_a_key = (diagonal + right >= 0) & (diagonal - left < kv_len)
        o = tl.where(sees_a_key[:, None], o, 0.0)
        lse = tl.where(sees_a_key, lse, float("-inf"))
    store_tile(o_view, o, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, DTYPE, USE_TMA)
    store_rows(lse_ptr + batch_head.to(tl.int64) * q_len, offs_m, q_len, lse)
    # [end]
    if TRACE:
        slot = tl.maximum(slot - 1, first_slot)
        record_bytes(trace, slot, tile_bytes(first_q, q_len, HEAD_DIM, BLOCK_M, BLOCK_D, ITEMSIZE), WRITE_O)
        record_bytes(trace, slot, tile_bytes(first_q, q_len, 1, BLOCK_M, 1, 4), WRITE_LSE)


def flash_forward(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *,
    left: int, right: int, scale: float, config: TileConfig, recorder: Recorder | None = None,
) -> tuple[torch.Tensor, torch.Tensor, LaunchInfo]:  # fmt: skip
    """Launch `_attn_fwd`. Returns O (batch, q_heads, q_len, head_dim) of query.dtype, lse (batch, q_heads, q_len) in float32,
    and how it was launched.

    The mask is the band `-left <= j - (i + kv_len - q_len) <= right`; a bound that no key reaches is left out of the
    compiled code. Any strides are taken as they are. A `recorder` makes the kernel write down its steps.
    """
    batch, q_heads, q_len, head_dim = query.shape
    kv_heads, kv_len = key.shape[1:3]
    out = torch.empty_like(query)
    lse = torch.empty((batch, q_heads, q_len), dtype=torch.float32, device=query.device)
    unbounded = q_len + kv_len
    heads = batch * q_heads
    use_tma = can_use_tma(config, query, key, value, out)
    block_d = triton.next_power_of_2(head_dim)
    with on_device(query, config):
        compiled = _attn_fwd[(triton.cdiv(q_len, config.block_m) * heads,)](
            *tile_arguments((query, key, value, out), (config.block_m, config.block_n, config.block_n, config.block_m), block_d, use_tma), lse,
            q_strides=query.stride(), k_strides=key.stride(), v_strides=value.stride(), o_strides=out.stride(),
            heads_in_turn=tiles.heads_in_turn(heads, right < unbounded),
            q_heads=q_heads, group_size=q_heads // kv_heads, q_len=q_len, kv_len=kv_len,
            left=left, right=right, scale_log2=scale * LOG2E.value,
            trace=recorder and recorder.buffers, max_steps=triton.cdiv(kv_len, config.block_n),
            BOUND_LEFT=left < unbounded, BOUND_RIGHT=right < unbounded, RAGGED=kv_len % config.block_n != 0,
            DTYPE=TRITON_DTYPES[query.dtype], HEAD_DIM=head_dim, BLOCK_M=config.block_m, BLOCK_N=config.block_n, BLOCK_D=block_d,
            PRECISION="ieee" if query.dtype == torch.float32 else "tf32",
            USE_TMA=use_tma, TRACE=recorder is not None, TRACE_ACC=recorder is not None and recorder.with_acc,
            num_warps=config.num_warps, num_stages=config.num_stages,
        )  # fmt: skip
    return out, lse, launch_info(config, compiled)


def run_traced(problem: AttentionProblem) -> Trace:
    """Run the kernel on the problem's own inputs and tiles with TRACE on."""
    query, key, value = make_inputs(problem, DEVICE)
    left, right = tiles.band(problem)
    config = config_for_blocks(problem.block_m, problem.block_n, problem.head_dim, problem.itemsize)
    rows = TileRows("", "q_tile", problem.block_m, problem.q_len)
    programs = problem.batch * problem.q_heads * problem.q_tiles
    recorder = make_recorder(
        "_attn_fwd",
        REQUESTS,
        ROW_FIELDS,
        rows,
        (rows._replace(field="acc"),),
        programs,
        problem.kv_tiles,
        problem.head_dim,
    )
    out, lse, launch = flash_forward(
        query, key, value, left=left, right=right, scale=problem.scale, config=config, recorder=recorder
    )
    return assemble(problem, "flash2", [(recorder, launch)], output=out, lse=lse)
