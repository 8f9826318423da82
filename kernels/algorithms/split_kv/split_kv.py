"""Split-KV decoding (flash-decoding): every part of the keys gives a partial result of its own, then a second kernel combines them.

Dao et al. 2023, "Flash-Decoding for long-context inference" (PyTorch blog). For few queries against many keys, where one program a query
tile would leave most of the GPU idle. The query heads that share a key head are packed into one tile, so that K and V are read once.
`# [name]` marks phases.
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
    problem_arguments,
    sm_count,
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
    finite_or_zero,
    from_memory,
    load_tile,
    mask_scores,
    matmul,
    new_row_max,
    store_rows,
    tile_bytes,
    tile_view,
    to_memory,
    to_operand,
)
from kernels.problem import AttentionProblem, tiles
from kernels.problem.inputs import make_inputs
from kernels.trace.trace import LaunchInfo, Trace

import triton
import triton.language as tl

SPLIT_REQUESTS = (
    ("Q", "read"),
    ("K", "read"),
    ("V", "read"),
    ("partial O", "write"),
    ("partial lse", "write"),
)
READ_Q, READ_K, READ_V, WRITE_PARTIAL_O, WRITE_PARTIAL_LSE = (
    tl.constexpr(column) for column in range(len(SPLIT_REQUESTS))
)
COMBINE_REQUESTS = (("partial O", "read"), ("partial lse", "read"), ("O", "write"), ("lse", "write"))
READ_PARTIAL_O, READ_PARTIAL_LSE, WRITE_O, WRITE_LSE = (
    tl.constexpr(column) for column in range(len(COMBINE_REQUESTS))
)


@triton.jit
def _attn_split_kv(
    query, key, value, partial_o_ptr, partial_lse_ptr, q_strides, k_strides, v_strides,
    kv_heads, group_size, q_len, kv_len, first_visited, end_visited, splits, tiles_per_split, left, right, scale_log2, trace,
    BOUND_LEFT: tl.constexpr, BOUND_RIGHT: tl.constexpr, RAGGED: tl.constexpr, DTYPE: tl.constexpr,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
    USE_TMA: tl.constexpr, TRACE: tl.constexpr, TRACE_ACC: tl.constexpr,
):  # fmt: skip
    """One part of the keys for one tile of packed rows of one key head. Packed row r is query r % q_len of head r // q_len of the group.

    partial_o (batch, kv_heads, splits, group_size * q_len, head_dim) and partial_lse (..., group_size * q_len) are float32.
    """
    ITEMSIZE: tl.constexpr = DTYPE.primitive_bitwidth // 8
    split, batch_kv_head, row_tile = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    batch, kv_head = batch_kv_head // kv_heads, batch_kv_head % kv_heads
    n_rows = group_size * q_len
    rows = row_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_m = rows % q_len
    offs_d = tl.arange(0, BLOCK_D)
    k_view = tile_view(key, k_strides, batch, kv_head, kv_len, USE_TMA)
    v_view = tile_view(value, v_strides, batch, kv_head, kv_len, USE_TMA)
    # [load Q] (BLOCK_M, BLOCK_D)
    heads = kv_head * group_size + rows // q_len
    q_rows = (
        query
        + batch.to(tl.int64) * q_strides[0]
        + heads.to(tl.int64) * q_strides[1]
        + offs_m.to(tl.int64) * q_strides[2]
    )
    inside = (rows < n_rows)[:, None] & (offs_d < HEAD_DIM)[None, :]
    q = from_memory(tl.load(q_rows[:, None] + offs_d[None, :] * q_strides[3], mask=inside, other=0.0))
    m = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    # [end]
    program = (row_tile * tl.num_programs(1) + batch_kv_head) * splits + split
    first_tile = first_visited + split * tiles_per_split
    end_tile = min(first_tile + tiles_per_split, end_visited)
    slot = program * tiles_per_split
    if TRACE:
        record_where(trace, slot, batch_kv_head, row_tile, -1)
        record_bytes(
            trace, slot, tile_bytes(row_tile * BLOCK_M, n_rows, HEAD_DIM, BLOCK_M, BLOCK_D, ITEMSIZE), READ_Q
        )
        record_rows(trace, slot, m, 0, BLOCK_M)
        record_rows(trace, slot, l, 1, BLOCK_M)
        record_rows(trace, slot, l + 1, 2, BLOCK_M)
    for kv_tile in tl.range(first_tile, end_tile):
        first_k = kv_tile * BLOCK_N
        if TRACE:
            record_start(trace, slot)
        # [load K] (BLOCK_N, BLOCK_D)
        k = load_tile(k_view, first_k, HEAD_DIM, BLOCK_N, BLOCK_D, USE_TMA)
        # [QK^T] (BLOCK_M, BLOCK_N) = (BLOCK_M, BLOCK_D) @ (BLOCK_D, BLOCK_N)
        scores = matmul(q, tl.trans(k), tl.zeros((BLOCK_M, BLOCK_N), tl.float32), PRECISION)
        if BOUND_LEFT or BOUND_RIGHT or RAGGED:
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
            record_where(trace, slot, batch_kv_head, row_tile, kv_tile)
            kv_bytes = tile_bytes(first_k, kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, ITEMSIZE)
            record_bytes(trace, slot, kv_bytes, READ_K)
            record_bytes(trace, slot, kv_bytes, READ_V)
            record_rows(trace, slot, m * LN2, 0, BLOCK_M)
            record_rows(trace, slot, l, 1, BLOCK_M)
            record_rows(trace, slot, alpha, 2, BLOCK_M)
            if TRACE_ACC:
                record_acc(trace.acc, slot, acc, BLOCK_M, BLOCK_D)
            record_end(trace, slot)
            slot += 1
    # [store partial O, lse]
    partial = (batch_kv_head * splits + split).to(tl.int64) * n_rows + rows
    # A part without a visible key weighs nothing when the parts are combined: lse -inf, and O 0 instead of 0 / 0.
    tl.store(
        partial_o_ptr + partial[:, None] * HEAD_DIM + offs_d[None, :],
        acc * tl.where(l == 0.0, 0.0, 1.0 / l)[:, None],
        mask=inside,
    )
    tl.store(partial_lse_ptr + partial, m * LN2 + tl.log(l), mask=rows < n_rows)
    # [end]
    if TRACE:
        slot = tl.maximum(slot - 1, program * tiles_per_split)
        record_bytes(
            trace,
            slot,
            tile_bytes(row_tile * BLOCK_M, n_rows, HEAD_DIM, BLOCK_M, BLOCK_D, 4),
            WRITE_PARTIAL_O,
        )
        record_bytes(trace, slot, tile_bytes(row_tile * BLOCK_M, n_rows, 1, BLOCK_M, 1, 4), WRITE_PARTIAL_LSE)


@triton.jit
def _attn_combine(
    partial_o_ptr, partial_lse_ptr, out, lse_ptr, o_strides, q_heads, group_size, q_len, kv_len, left, right, splits, trace,
    DTYPE: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_S: tl.constexpr, TRACE: tl.constexpr,
):  # fmt: skip
    """Combine the parts of one tile of packed rows: weights exp(lse of the part - lse), lse their log-sum-exp."""
    batch_kv_head, row_tile = tl.program_id(0), tl.program_id(1)
    n_rows = group_size * q_len
    rows = row_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    offs_s = tl.arange(0, BLOCK_S)
    inside = (rows < n_rows)[:, None] & (offs_d < HEAD_DIM)[None, :]
    first = batch_kv_head.to(tl.int64) * splits * n_rows
    # [load partial lse] (BLOCK_S, BLOCK_M)
    known = (offs_s < splits)[:, None] & (rows < n_rows)[None, :]
    parts = tl.load(
        partial_lse_ptr + first + offs_s[:, None] * n_rows + rows[None, :], mask=known, other=float("-inf")
    )
    # [log-sum-exp]
    largest = tl.max(parts, axis=0)
    shift = finite_or_zero(largest)
    lse = largest + tl.log(tl.sum(tl.exp(parts - shift[None, :]), axis=0))
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    # [end]
    slot = (row_tile * tl.num_programs(0) + batch_kv_head) * splits
    for split in tl.range(
        0, splits, loop_unroll_factor=8
    ):  # few programs run here: the loads of several parts have to be under way at once
        if TRACE:
            record_start(trace, slot)
        partial = first + split * n_rows + rows
        # [load partial O] (BLOCK_M, BLOCK_D)
        o = tl.load(partial_o_ptr + partial[:, None] * HEAD_DIM + offs_d[None, :], mask=inside, other=0.0)
        # [weigh]
        part = tl.load(partial_lse_ptr + partial, mask=rows < n_rows, other=float("-inf"))
        weight = tl.where(part == float("-inf"), 0.0, tl.exp(part - lse))
        acc += weight[:, None] * o
        # [end]
        if TRACE:
            record_where(trace, slot, batch_kv_head, row_tile, -1)
            record_bytes(
                trace,
                slot,
                tile_bytes(row_tile * BLOCK_M, n_rows, HEAD_DIM, BLOCK_M, BLOCK_D, 4),
                READ_PARTIAL_O,
            )
            row_bytes = tile_bytes(row_tile * BLOCK_M, n_rows, 1, BLOCK_M, 1, 4)
            record_bytes(
                trace, slot, row_bytes + tl.where(split == 0, splits, 0) * row_bytes, READ_PARTIAL_LSE
            )
            record_rows(trace, slot, weight, 0, BLOCK_M)
            record_end(trace, slot)
            slot += 1
    # [store O, lse]
    diagonal = rows % q_len + (kv_len - q_len)
    sees_a_key = (diagonal + right >= 0) & (diagonal - left < kv_len)
    # A row whose every score is -inf is 0 / 0; one that sees no key is 0.
    acc = tl.where(((largest == float("-inf")) & sees_a_key)[:, None], float("nan"), acc)
    batch, kv_head = batch_kv_head // (q_heads // group_size), batch_kv_head % (q_heads // group_size)
    heads = kv_head * group_size + rows // q_len
    o_rows = (
        out
        + batch.to(tl.int64) * o_strides[0]
        + heads.to(tl.int64) * o_strides[1]
        + (rows % q_len).to(tl.int64) * o_strides[2]
    )
    tl.store(o_rows[:, None] + offs_d[None, :] * o_strides[3], to_memory(acc, DTYPE), mask=inside)
    store_rows(lse_ptr + batch_kv_head.to(tl.int64) * n_rows, rows, n_rows, lse)
    # [end]
    if TRACE:
        itemsize: tl.constexpr = DTYPE.primitive_bitwidth // 8
        record_bytes(
            trace,
            slot - 1,
            tile_bytes(row_tile * BLOCK_M, n_rows, HEAD_DIM, BLOCK_M, BLOCK_D, itemsize),
            WRITE_O,
        )
        record_bytes(trace, slot - 1, tile_bytes(row_tile * BLOCK_M, n_rows, 1, BLOCK_M, 1, 4), WRITE_LSE)


def choose_splits(programs: int, kv_tiles: int) -> int:
    """So many parts that the current device is full: `tiles.splits_to_fill`."""
    return tiles.splits_to_fill(programs, kv_tiles, sm_count())


def flash_split_kv(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *,
    left: int, right: int, scale: float, config: TileConfig, splits: int = 0, recorders: tuple[Recorder, Recorder] | None = None,
) -> tuple[torch.Tensor, torch.Tensor, tuple[LaunchInfo, LaunchInfo]]:  # fmt: skip
    """Launch `_attn_split_kv` and `_attn_combine`; arguments and results as of `flash_forward`, with both launches.

    `splits` 0 lets `choose_splits` decide. config.block_m counts packed rows: the queries of all heads that share a key head.
    """
    batch, q_heads, q_len, head_dim = query.shape
    kv_heads, kv_len = key.shape[1:3]
    group_size, heads = q_heads // kv_heads, batch * kv_heads
    n_rows, block_d = group_size * q_len, triton.next_power_of_2(head_dim)
    row_tiles = triton.cdiv(n_rows, config.block_m)
    first, end, splits, tiles_per_split = split_plan(query.shape, key.shape, left, right, config, splits)
    float32 = {"dtype": torch.float32, "device": query.device}
    out, lse = torch.empty_like(query), torch.empty((batch, q_heads, q_len), **float32)
    partial_o = torch.empty((heads, splits, n_rows, head_dim), **float32)
    partial_lse = torch.empty((heads, splits, n_rows), **float32)
    use_tma = can_use_tma(config, key, value)
    split_recorder, combine_recorder = recorders or (None, None)
    with on_device(query, config):
        k_argument, v_argument = tile_arguments(
            (key, value), (config.block_n, config.block_n), block_d, use_tma
        )
        split = _attn_split_kv[(splits, heads, row_tiles)](
            query, k_argument, v_argument, partial_o, partial_lse,
            q_strides=query.stride(), k_strides=key.stride(), v_strides=value.stride(),
            kv_heads=kv_heads, first_visited=first, end_visited=end, splits=splits, tiles_per_split=tiles_per_split,
            trace=split_recorder and split_recorder.buffers, **problem_arguments(query, key, left, right, scale),
            BLOCK_M=config.block_m, BLOCK_N=config.block_n, RAGGED=kv_len % config.block_n != 0, USE_TMA=use_tma,
            TRACE=recorders is not None, TRACE_ACC=recorders is not None and split_recorder.with_acc,
            num_warps=config.num_warps, num_stages=config.num_stages,
        )  # fmt: skip
        combine = _attn_combine[(heads, row_tiles)](
            partial_o, partial_lse, out, lse, o_strides=out.stride(), q_heads=q_heads, group_size=group_size, q_len=q_len, kv_len=kv_len,
            left=left, right=right, splits=splits, trace=combine_recorder and combine_recorder.buffers, DTYPE=TRITON_DTYPES[query.dtype],
            HEAD_DIM=head_dim, BLOCK_M=config.block_m, BLOCK_D=block_d, BLOCK_S=triton.next_power_of_2(splits), TRACE=recorders is not None,
        )  # fmt: skip
    return out, lse, (launch_info(config, split), launch_info(config, combine))


def split_plan(
    q_shape: tuple, kv_shape: tuple, left: int, right: int, config: TileConfig, splits: int
) -> tuple[int, int, int, int]:
    """(first key tile, one past the last, number of parts, key tiles of a part) of a decoding call; skips tiles that no query sees."""
    batch, q_heads, q_len, _ = q_shape
    kv_heads, kv_len = kv_shape[1:3]
    first = tiles.first_visited_tile(0, q_len, kv_len, left, q_len, config.block_n)
    end = max(tiles.end_visited_tile(0, q_len, kv_len, right, q_len, config.block_n), first)
    row_tiles = triton.cdiv(q_heads // kv_heads * q_len, config.block_m)
    splits = min(splits, max(end - first, 1)) or choose_splits(batch * kv_heads * row_tiles, end - first)
    return first, end, *tiles.split_evenly(end - first, splits)


def run_traced(problem: AttentionProblem) -> Trace:
    """Run both kernels on the problem's own inputs and tiles with TRACE on; block_m counts packed rows."""
    query, key, value = make_inputs(problem, DEVICE)
    left, right = tiles.band(problem)
    config = config_for_blocks(problem.block_m, problem.block_n, problem.head_dim, problem.itemsize)
    rows = TileRows("", "q_tile", problem.block_m, problem.q_heads // problem.kv_heads * problem.q_len)
    _, _, splits, tiles_per_split = split_plan(
        problem.q_shape, problem.kv_shape, left, right, config, problem.kv_splits
    )
    heads = problem.batch * problem.kv_heads * triton.cdiv(rows.total, rows.block)
    recorders = (
        make_recorder("_attn_split_kv", SPLIT_REQUESTS, ("row_max", "row_sum", "alpha"), rows, (rows._replace(field="acc"),),
                      heads * splits, tiles_per_split, problem.head_dim),
        make_recorder("_attn_combine", COMBINE_REQUESTS, ("weight",), rows, (), heads, splits, problem.head_dim),
    )  # fmt: skip
    out, lse, launches = flash_split_kv(
        query,
        key,
        value,
        left=left,
        right=right,
        scale=problem.scale,
        config=config,
        splits=problem.kv_splits,
        recorders=recorders,
    )
    return assemble(problem, "split_kv", list(zip(recorders, launches, strict=True)), output=out, lse=lse)
