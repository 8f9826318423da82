"""FlashAttention-2 forward: one program per query tile, key and value tiles are streamed past it.

Dao 2023, algorithm 1. A comment `# [name]` starts a phase of a tile step (declared in entry.py). While the
player shows that phase, it highlights the lines below the comment.
"""

from __future__ import annotations

import torch

from kernels.algorithms.flash2.entry import FORWARD, WARPS
from kernels.primitives.launch import (
    TileConfig,
    can_use_tma,
    config_arguments,
    launch_info,
    on_device,
    problem_arguments,
    tile_arguments,
)
from kernels.primitives.marks import (
    RECORD,
    LaneBuffers,
    lane_arguments,
    lane_of,
    mark,
    mark_numbers,
    mark_program,
    mark_tile,
)
from kernels.primitives.masking import mask_scores, sees_a_key
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
from kernels.primitives.replay import launch
from kernels.primitives.tile_io import load_tile, row_bytes, store_rows, store_tile, tile_bytes, tile_view
from kernels.primitives.traversal import last_tiles_first, part_of_tiles, visited_by_query_tile
from kernels.problem import Band, tiles
from kernels.trace import LaunchInfo

import triton
import triton.language as tl

READ_Q, READ_K, READ_V = read_columns(FORWARD, "Q", "K", "V")
WRITE_O, WRITE_LSE = write_columns(FORWARD, "O", "lse")
Q, K, QK, S, P, V, RESCALED = matrix_numbers(FORWARD, "Q", "K", "QK^T", "S", "P", "V", "O rescaled")
START, HAS_S, HAS_P, DONE, WROTE = mark_numbers(WARPS, "start", "has S", "has P", "done", "wrote")


@triton.jit
def _attn_fwd_inner(
    acc,
    l,
    m,
    q,
    k_view,
    v_view,
    first_tile,
    end_tile,
    batch_head,
    q_tile,
    band,
    scale_log2,
    trace,
    slot,
    lane,
    MASKED: tl.constexpr,
    BOUND_LEFT: tl.constexpr,
    BOUND_RIGHT: tl.constexpr,
    DTYPE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr,
    USE_TMA: tl.constexpr,
    TRACE: tl.constexpr,
    TRACE_ACC: tl.constexpr,
    LANES: tl.constexpr,
):
    """Attend to key tiles [first_tile, end_tile). acc (BLOCK_M, BLOCK_D), l and m (BLOCK_M,) are float32."""
    offs_m = q_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    for kv_tile in tl.range(first_tile, end_tile):
        first_k = kv_tile * BLOCK_N
        if TRACE:
            record_start(trace, slot)
        if LANES:
            mark(lane, kv_tile, START)
        # [load K] (BLOCK_N, BLOCK_D)
        k = load_tile(k_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, USE_TMA)
        # [QK^T] (BLOCK_M, BLOCK_N) = (BLOCK_M, BLOCK_D) @ (BLOCK_D, BLOCK_N)
        scores = matmul(q, tl.trans(k), tl.zeros((BLOCK_M, BLOCK_N), tl.float32), PRECISION)
        if LANES:
            mark(lane, kv_tile, HAS_S)
        if TRACE:
            record_matrix(trace, slot, q, Q, BLOCK_M, BLOCK_D)
            record_matrix(trace, slot, k, K, BLOCK_N, BLOCK_D)
            record_matrix(trace, slot, scores, QK, BLOCK_M, BLOCK_N)
        if MASKED:
            # [mask]
            scores = mask_scores(scores, offs_m, first_k, band, BOUND_LEFT, BOUND_RIGHT, BLOCK_N)
            if TRACE:
                record_matrix(trace, slot, scores, S, BLOCK_M, BLOCK_N)
        # [row max]
        p, m, l, alpha = online_softmax(scores, m, l, scale_log2)
        # [rescale]
        acc = acc * alpha[:, None]
        if LANES:
            mark(lane, kv_tile, HAS_P)
        if TRACE:
            record_matrix(trace, slot, p, P, BLOCK_M, BLOCK_N)
            record_matrix(trace, slot, acc, RESCALED, BLOCK_M, BLOCK_D)
        # [load V] (BLOCK_N, BLOCK_D)
        v = load_tile(v_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, USE_TMA)
        # [PV] (BLOCK_M, BLOCK_D) += (BLOCK_M, BLOCK_N) @ (BLOCK_N, BLOCK_D)
        acc = matmul(to_operand(p, DTYPE), v, acc, PRECISION)
        # [end]
        if LANES:
            mark_tile(lane, kv_tile, batch_head * tl.cdiv(band.q_len, BLOCK_M) + q_tile, kv_tile)
        if TRACE:
            ITEMSIZE: tl.constexpr = DTYPE.primitive_bitwidth // 8
            record_where(trace, slot, batch_head, q_tile, kv_tile)
            n_bytes = tile_bytes(first_k, band.kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, ITEMSIZE)
            record_bytes(trace, slot, n_bytes, READ_K)
            record_bytes(trace, slot, n_bytes, READ_V)
            record_matrix(trace, slot, v, V, BLOCK_N, BLOCK_D)
            record_state(trace, slot, m, l, alpha, BLOCK_M)
            if TRACE_ACC:
                record_acc(trace.acc, slot, acc, BLOCK_M, BLOCK_D)
            record_end(trace, slot)
            slot += 1
    return acc, l, m, slot


@triton.jit
def _attn_fwd(
    query,
    key,
    value,
    out,
    lse_ptr,
    q_strides,
    k_strides,
    v_strides,
    o_strides,
    heads_in_turn,
    q_heads,
    group_size,
    band,
    scale_log2,
    trace,
    max_steps,
    BOUND_LEFT: tl.constexpr,
    BOUND_RIGHT: tl.constexpr,
    RAGGED: tl.constexpr,
    DTYPE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr,
    USE_TMA: tl.constexpr,
    TRACE: tl.constexpr,
    TRACE_ACC: tl.constexpr,
    LANES: tl.constexpr,
):
    """One query tile of one head. lse is (batch, q_heads, q_len); strides are (batch, head, row, column)."""
    if LANES:
        mark_program(trace, False)
    q_tiles = tl.cdiv(band.q_len, BLOCK_M)
    heads = tl.num_programs(0) // q_tiles
    batch_head, q_tile = last_tiles_first(tl.program_id(0), heads_in_turn, q_tiles, heads)
    batch, head = batch_head // q_heads, batch_head % q_heads
    q_view = tile_view(query, q_strides, batch, head, band.q_len, USE_TMA)
    k_view = tile_view(key, k_strides, batch, head // group_size, band.kv_len, USE_TMA)
    v_view = tile_view(value, v_strides, batch, head // group_size, band.kv_len, USE_TMA)
    o_view = tile_view(out, o_strides, batch, head, band.q_len, USE_TMA)
    first_q = q_tile * BLOCK_M
    # [load Q] (BLOCK_M, BLOCK_D)
    q = load_tile(q_view, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, USE_TMA)
    m = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    # [end]
    first_slot = (batch_head * q_tiles + q_tile) * max_steps
    slot = first_slot
    if TRACE:  # this entry stays if the query tile visits no key tile
        ITEMSIZE: tl.constexpr = DTYPE.primitive_bitwidth // 8
        q_bytes = tile_bytes(first_q, band.q_len, HEAD_DIM, BLOCK_M, BLOCK_D, ITEMSIZE)
        record_where(trace, slot, batch_head, q_tile, -1)
        record_bytes(trace, slot, q_bytes, READ_Q)
        record_state(trace, slot, m, l, l + 1, BLOCK_M)
        if TRACE_ACC:
            record_acc(trace.acc, slot, acc, BLOCK_M, BLOCK_D)

    first, first_full, end_full, end = visited_by_query_tile(q_tile, band, BLOCK_M, BLOCK_N)
    lane = None
    if LANES:
        lane = lane_of(trace, 0) - first * RECORD  # its turns are numbered as the key tiles
    for PART in tl.static_range(3):
        # Tiles that the left bound cuts, whole tiles, tiles that the right bound or the end of the keys cuts.
        from_tile, to_tile = part_of_tiles(first, first_full, end_full, end, PART)
        if (PART == 0 and BOUND_LEFT) or PART == 1 or (PART == 2 and (BOUND_RIGHT or RAGGED)):
            acc, l, m, slot = _attn_fwd_inner(
                acc, l, m, q, k_view, v_view, from_tile, to_tile, batch_head, q_tile, band, scale_log2, trace,
                slot, lane, PART != 1, BOUND_LEFT, BOUND_RIGHT, DTYPE, HEAD_DIM, BLOCK_M, BLOCK_N, BLOCK_D,
                PRECISION, USE_TMA, TRACE, TRACE_ACC, LANES,
            )  # fmt: skip
            if LANES and to_tile > from_tile:
                mark(lane, to_tile - 1, DONE)

    # [store O, lse]
    o = acc * (1.0 / l)[:, None]
    lse = m * LN2 + tl.log(l)
    offs_m = first_q + tl.arange(0, BLOCK_M)
    if BOUND_LEFT or BOUND_RIGHT:  # a row that sees no key gives 0 and -inf, not the 0 / 0 of its empty sums
        visible = sees_a_key(offs_m, band)
        o = tl.where(visible[:, None], o, 0.0)
        lse = tl.where(visible, lse, float("-inf"))
    store_tile(o_view, o, first_q, HEAD_DIM, BLOCK_M, BLOCK_D, DTYPE, USE_TMA)
    store_rows(lse_ptr + batch_head.to(tl.int64) * band.q_len, offs_m, band.q_len, lse)
    # [end]
    if LANES:
        mark(lane, tl.maximum(end - 1, first), WROTE)
        mark_program(trace, True)
    if TRACE:
        slot = tl.maximum(slot - 1, first_slot)
        record_bytes(trace, slot, q_bytes, WRITE_O)
        record_bytes(trace, slot, row_bytes(first_q, band.q_len, BLOCK_M), WRITE_LSE)


def flash_forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    band: Band,
    scale: float,
    config: TileConfig,
    recorder: Recorder | None = None,
    lanes: LaneBuffers | None = None,
) -> tuple[torch.Tensor, torch.Tensor, LaunchInfo]:
    """Launch `_attn_fwd`.

    query is (batch, q_heads, q_len, head_dim), key and value (batch, kv_heads, kv_len, head_dim), in any
    strides. Returns O, shaped and typed as query, lse (batch, q_heads, q_len) in float32, and how the kernel
    was launched. With a `recorder` the kernel writes down its steps, with `lanes` its marks. Raises
    InvalidProblem if the tiles do not fit the GPU.
    """
    batch, q_heads = query.shape[:2]
    out = torch.empty_like(query)
    lse = torch.empty((batch, q_heads, band.q_len), dtype=torch.float32, device=query.device)
    heads = batch * q_heads
    used = (query, key, value, out)
    use_tma = can_use_tma(config, *used)
    rows = (config.block_m, config.block_n, config.block_n, config.block_m)
    with on_device(query, config):
        compiled = launch(
            _attn_fwd,
            (triton.cdiv(band.q_len, config.block_m) * heads,),
            *tile_arguments(used, rows, use_tma),
            lse,
            q_strides=query.stride(),
            k_strides=key.stride(),
            v_strides=value.stride(),
            o_strides=out.stride(),
            heads_in_turn=tiles.heads_in_turn(heads, band.bounds_right),
            q_heads=q_heads,
            RAGGED=band.kv_len % config.block_n != 0,
            USE_TMA=use_tma,
            **problem_arguments(query, key, band, scale),
            **config_arguments(config, recorder) | lane_arguments(lanes),
        )
    return out, lse, launch_info(config, compiled)
