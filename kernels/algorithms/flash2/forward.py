"""FlashAttention-2 forward: one program per query tile, key and value tiles are streamed past it.

Dao 2023, algorithm 1. A comment `# [name]` starts a phase of a tile step (declared in entry.py). While the
player shows that phase, it highlights the lines below the comment.
"""

from typing import Any

import torch

from kernels.algorithms.flash2.recording import (
    HAS_S,
    QK,
    mark_part,
    record_output,
    record_query,
    record_softmax,
    record_step,
)
from kernels.primitives.launch import TileConfig, launch_on_tiles
from kernels.primitives.marks import RECORD, lane_of, mark_program
from kernels.primitives.masking import mask_scores, sees_a_key
from kernels.primitives.mods import ahead, change_scores, loss_of_rows, mods_of_head, tile_of, visits_listed
from kernels.primitives.numbers import LN2, LOG2E, matmul, to_operand
from kernels.primitives.online_softmax import online_softmax
from kernels.primitives.recorder import Log, record_made, record_turn
from kernels.primitives.tile_io import load_tile, store_rows, store_tile, tile_view
from kernels.primitives.traversal import (
    last_tiles_first,
    part_of_tiles,
    visited_by_query_tile,
)
from kernels.trace import LaunchInfo

import triton
import triton.language as tl


@triton.jit
def _attn_fwd_inner(
    acc, l, m, q, k_view, v_view, first_turn, end_turn, listed, batch_head, q_tile, band, own, scale_log2,
    log, PART: tl.constexpr, FIXED: tl.constexpr,
):  # fmt: skip
    """Attend to the key tiles of turns [first_turn, end_turn). acc is (BLOCK_M, BLOCK_D), l, m (BLOCK_M,)."""
    BLOCK_M: tl.constexpr = FIXED.BLOCK_M
    BLOCK_N: tl.constexpr = FIXED.BLOCK_N
    MASKED: tl.constexpr = PART != 1
    offs_m = q_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    loss = loss_of_rows(offs_m, own) if FIXED.PATTERN.BEFORE and not MASKED else None
    if FIXED.PATTERN.PLANNED:
        listed = ahead(listed, first_turn, PART, FIXED)
    for turn in tl.range(first_turn, end_turn):
        kv_tile = tile_of(turn, listed)
        record_turn(log, turn)
        # [load K] (BLOCK_N, BLOCK_D)
        k = load_tile(k_view, kv_tile, BLOCK_N, FIXED)
        # [QK^T] (BLOCK_M, BLOCK_N) = (BLOCK_M, BLOCK_D) @ (BLOCK_D, BLOCK_N)
        scores = matmul(q, tl.trans(k), tl.zeros((BLOCK_M, BLOCK_N), tl.float32), FIXED)
        record_made(log, turn, scores, QK, HAS_S)
        if MASKED or FIXED.PATTERN.CHANGES_SCORES:
            # [mask]
            scores, _ = change_scores(scores, offs_m, kv_tile, own, False, FIXED, loss)
        if MASKED:
            scores = mask_scores(scores, offs_m, kv_tile, band, FIXED, own, PART)
        # [row max]
        p, m, l, alpha = online_softmax(scores, m, l, scale_log2, loss)
        # [rescale]
        acc = acc * alpha[:, None]
        if loss is not None:
            scores -= loss[:, None]
        record_softmax(log, turn, scores, p, acc, MASKED or FIXED.PATTERN.CHANGES_SCORES)
        # [load V] (BLOCK_N, BLOCK_D)
        v = load_tile(v_view, kv_tile, BLOCK_N, FIXED)
        # [PV] (BLOCK_M, BLOCK_D) += (BLOCK_M, BLOCK_N) @ (BLOCK_N, BLOCK_D)
        acc = matmul(to_operand(p, FIXED.DTYPE), v, acc, FIXED)
        # [end]
        record_step(log, turn, kv_tile, batch_head, q_tile, band, q, k, v, m, l, alpha, acc, FIXED)
    return acc, l, m


@triton.jit(do_not_specialize=("heads_in_turn", "q_heads"))
def _attn_fwd(
    query, key, value, out, lse_ptr, strides, heads_in_turn, q_heads, group_size, band, mods,
    scale_log2, trace, lanes, max_steps, FIXED: tl.constexpr,
):  # fmt: skip
    """One query tile of one head. lse is (batch, q_heads, q_len); strides are (batch, head, row, column)."""
    mark_program(lanes, False)
    BLOCK_M: tl.constexpr = FIXED.BLOCK_M
    BLOCK_D: tl.constexpr = FIXED.BLOCK_D
    q_tiles = tl.cdiv(band.q_len, BLOCK_M)
    heads = tl.num_programs(0) // q_tiles
    batch_head, q_tile = last_tiles_first(tl.program_id(0), heads_in_turn, q_tiles, heads)
    batch, head = batch_head // q_heads, batch_head % q_heads
    q_view = tile_view(query, strides.q, batch, head, band.q_len, FIXED)
    k_view = tile_view(key, strides.k, batch, head // group_size, band.kv_len, FIXED)
    v_view = tile_view(value, strides.v, batch, head // group_size, band.kv_len, FIXED)
    o_view = tile_view(out, strides.o, batch, head, band.q_len, FIXED)
    offs_m = q_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    own, listed = None, None
    if mods is not None:  # on its way while Q is loaded
        own = mods_of_head(mods, batch_head, offs_m, band, False, FIXED)
    if FIXED.PATTERN.PLANNED:
        listed, first, first_full, end_full, end = visits_listed(mods, batch_head, q_tile)
    else:
        first, first_full, end_full, end = visited_by_query_tile(q_tile, band, BLOCK_M, FIXED.BLOCK_N)
    # [load Q] (BLOCK_M, BLOCK_D)
    q = load_tile(q_view, q_tile, BLOCK_M, FIXED)
    m = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    if FIXED.PATTERN.SINK:
        # The sink is a key that was seen, and has no value.
        m, l = l + tl.load(mods.sinks + head) * LOG2E, l + 1
    # [end]
    lane = lane_of(lanes, 0) - first * RECORD if lanes is not None else None
    log = Log(
        trace.where if FIXED.TRACE else None, trace, (batch_head * q_tiles + q_tile) * max_steps - first, lane
    )
    record_query(log, first, batch_head, q_tile, band.q_len, m, l, acc, FIXED)
    for PART in tl.static_range(3):
        # Tiles that the left bound cuts, whole tiles, tiles that the right bound or the end of the keys cuts.
        from_turn, to_turn = part_of_tiles(first, first_full, end_full, end, PART)
        if FIXED.HAS_PART[PART]:
            acc, l, m = _attn_fwd_inner(
                acc, l, m, q, k_view, v_view, from_turn, to_turn, listed, batch_head, q_tile, band, own,
                scale_log2, log, PART, FIXED,
            )  # fmt: skip
            mark_part(log, from_turn, to_turn)

    # [store O, lse]
    o = acc * (1.0 / l)[:, None]
    lse = m * LN2 + tl.log(l)
    if (FIXED.BOUND_LEFT or FIXED.BOUND_RIGHT) and not FIXED.PATTERN.SINK:
        # A row that sees no key gives 0 and -inf, not the 0 / 0 of its empty sums.
        visible = sees_a_key(offs_m, band)
        o = tl.where(visible[:, None], o, 0.0)
        lse = tl.where(visible, lse, float("-inf"))
    if FIXED.PATTERN.PLANNED:
        o = tl.where((l != 0)[:, None], o, 0.0)
    store_tile(o_view, o, q_tile, FIXED.DTYPE, FIXED)
    store_rows(lse_ptr + batch_head.to(tl.int64) * band.q_len, offs_m, band.q_len, lse)
    # [end]
    record_output(log, tl.maximum(end - 1, first), q_tile, band.q_len, FIXED.ITEMSIZE, FIXED)
    mark_program(lanes, True)


def flash_forward(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, config: TileConfig, **asked: Any
) -> tuple[torch.Tensor, torch.Tensor, LaunchInfo]:
    """Launch `_attn_fwd`.

    query is (batch, q_heads, q_len, head_dim), key and value (batch, kv_heads, kv_len, head_dim), in any
    strides. What is `asked` goes to `launch_on_tiles`: the band and the scale, a pattern, a recorder; with
    `lanes` the kernel writes down its marks. Returns O, shaped and typed as query, lse (batch, q_heads,
    q_len) in float32, and how the kernel was launched. Raises InvalidProblem if the tiles do not fit the GPU.
    """
    out = torch.empty_like(query)
    lse = torch.empty(query.shape[:3], dtype=torch.float32, device=query.device)
    grid = (triton.cdiv(query.shape[2], config.block_m) * query.shape[0] * query.shape[1],)
    tensors = {"q": query, "k": key, "v": value, "o": out}
    info = launch_on_tiles(_attn_fwd, grid, tensors, lse, config=config, **{"lanes": None} | asked)
    return out, lse, info
