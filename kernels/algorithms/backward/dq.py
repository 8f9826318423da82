"""dQ: a query tile stays, the key tiles are streamed past it.

Dao 2023, algorithm 2, with the loop over key tiles inside. P is recomputed from lse.
"""

from kernels.algorithms.backward.recording import DP, DS, QK
from kernels.algorithms.backward.recording_dq import (
    HAS_DP,
    HAS_DS,
    HAS_K,
    HAS_S,
    HAS_V,
    WRITE_DQ,
    WROTE,
    record_query_tile,
    record_step,
    record_weights,
)
from kernels.primitives.marks import RECORD, lane_of, mark_program
from kernels.primitives.masking import load_lse, mask_scores
from kernels.primitives.mods import ahead, change_scores, mods_of_head, tile_of, visits_listed
from kernels.primitives.numbers import matmul, to_operand
from kernels.primitives.recorder import Log, record_made, record_stored, record_turn
from kernels.primitives.tile_io import Stream, load_rows, load_streamed, load_tile, store_tile, tile_view
from kernels.primitives.traversal import (
    last_tiles_first,
    part_of_tiles,
    visited_by_query_tile,
)

import triton
import triton.language as tl


@triton.jit
def _attn_bwd_dq_inner(
    dq, q, do, lse, delta, k_stream, v_stream, first_turn, end_turn, listed, batch_head, q_tile, band,
    own, scale_log2, log, PART: tl.constexpr, FIXED: tl.constexpr,
):  # fmt: skip
    """The key tiles of turns [first_turn, end_turn) add to dq (BLOCK_M, BLOCK_D), which lacks the scale."""
    BLOCK_M: tl.constexpr = FIXED.BLOCK_M
    BLOCK_N: tl.constexpr = FIXED.BLOCK_N
    MASKED: tl.constexpr = PART != 1
    offs_m = q_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    if FIXED.PATTERN.PLANNED:
        listed = ahead(listed, first_turn, PART, FIXED)
    for turn in tl.range(first_turn, end_turn):
        kv_tile = tile_of(turn, listed)
        record_turn(log, turn)
        # [load K] (BLOCK_N, BLOCK_D)
        k = load_streamed(k_stream, kv_tile, BLOCK_N, FIXED)
        # [QK^T] (BLOCK_M, BLOCK_N) = (BLOCK_M, BLOCK_D) @ (BLOCK_D, BLOCK_N)
        scores = matmul(q, tl.trans(k), tl.zeros((BLOCK_M, BLOCK_N), tl.float32), FIXED)
        record_made(log, turn, scores, QK, HAS_S)
        if MASKED or FIXED.PATTERN.CHANGES_SCORES:
            # [mask]
            scores, derivative = change_scores(scores, offs_m, kv_tile, own, False, FIXED)
        if MASKED:
            scores = mask_scores(scores, offs_m, kv_tile, band, FIXED, own, PART)
        # [P from lse] (BLOCK_M, BLOCK_N)
        p = tl.exp2(scores * scale_log2 - lse[:, None])
        record_weights(log, turn, scores, p)
        # [load V] (BLOCK_N, BLOCK_D)
        v = load_streamed(v_stream, kv_tile, BLOCK_N, FIXED)
        # [dP] (BLOCK_M, BLOCK_N) = (BLOCK_M, BLOCK_D) @ (BLOCK_D, BLOCK_N)
        dp = matmul(do, tl.trans(v), tl.zeros((BLOCK_M, BLOCK_N), tl.float32), FIXED)
        record_made(log, turn, dp, DP, HAS_DP)
        # [dS]
        ds = p * (dp - delta[:, None])
        if FIXED.PATTERN.SOFTCAP:
            ds *= derivative
        record_made(log, turn, ds, DS, HAS_DS)
        # [dQ] (BLOCK_M, BLOCK_D) += (BLOCK_M, BLOCK_N) @ (BLOCK_N, BLOCK_D)
        dq = matmul(to_operand(ds, FIXED.DTYPE), k, dq, FIXED)
        # [end]
        record_step(log, turn, kv_tile, batch_head, q_tile, band, q, k, v, do, lse, delta, p, dq, FIXED)
    return dq


@triton.jit(do_not_specialize=("heads_in_turn", "q_heads"))
def _attn_bwd_dq(
    query, key, value, d_out, d_query, lse_ptr, delta_ptr, strides, heads_in_turn, q_heads,
    group_size, band, mods, scale, scale_log2, trace, lanes, max_steps, FIXED: tl.constexpr,
):  # fmt: skip
    """dQ of one query tile. lse and delta are (batch, q_heads, q_len) and float32."""
    mark_program(lanes, False)
    BLOCK_M: tl.constexpr = FIXED.BLOCK_M
    BLOCK_D: tl.constexpr = FIXED.BLOCK_D
    q_tiles = tl.cdiv(band.q_len, BLOCK_M)
    heads = tl.num_programs(0) // q_tiles
    batch_head, q_tile = last_tiles_first(tl.program_id(0), heads_in_turn, q_tiles, heads)
    batch, head = batch_head // q_heads, batch_head % q_heads
    q_view = tile_view(query, strides.q, batch, head, band.q_len, FIXED)
    do_view = tile_view(d_out, strides.do, batch, head, band.q_len, FIXED)
    k_view = tile_view(key, strides.k, batch, head // group_size, band.kv_len, FIXED)
    v_view = tile_view(value, strides.v, batch, head // group_size, band.kv_len, FIXED)
    offs_m = q_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    rows = batch_head.to(tl.int64) * band.q_len
    own, listed = None, None
    if mods is not None:  # on its way while Q is loaded
        own = mods_of_head(mods, batch_head, offs_m, band, False, FIXED)
    if FIXED.PATTERN.PLANNED:
        listed, first, first_full, end_full, end = visits_listed(mods, batch_head, q_tile)
    else:
        first, first_full, end_full, end = visited_by_query_tile(q_tile, band, BLOCK_M, FIXED.BLOCK_N)
    # [load Q, dO, lse, D] (BLOCK_M, BLOCK_D)
    q = load_tile(q_view, q_tile, BLOCK_M, FIXED)
    do = load_tile(do_view, q_tile, BLOCK_M, FIXED)
    lse = load_lse(lse_ptr + rows, offs_m, band, FIXED)
    delta = load_rows(delta_ptr + rows, offs_m, band.q_len, 0.0)
    dq = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    # [end]
    lane = lane_of(lanes, 0) - first * RECORD if lanes is not None else None
    log = Log(
        trace.where if FIXED.TRACE else None, trace, (batch_head * q_tiles + q_tile) * max_steps - first, lane
    )
    record_query_tile(log, first, batch_head, q_tile, band.q_len, delta, dq, FIXED)
    k_stream = Stream(k_view, lane, HAS_K)
    v_stream = Stream(v_view, lane, HAS_V)
    for PART in tl.static_range(3):
        from_turn, to_turn = part_of_tiles(first, first_full, end_full, end, PART)
        if FIXED.HAS_PART[PART]:
            dq = _attn_bwd_dq_inner(
                dq, q, do, lse, delta, k_stream, v_stream, from_turn, to_turn, listed, batch_head, q_tile,
                band, own, scale_log2, log, PART, FIXED,
            )  # fmt: skip

    # [store dQ]
    dq_view = tile_view(d_query, strides.dq, batch, head, band.q_len, FIXED)
    store_tile(dq_view, dq * scale, q_tile, FIXED.DTYPE, FIXED)
    # [end]
    record_stored(log, tl.maximum(end - 1, first), (WRITE_DQ,), q_tile, band.q_len, BLOCK_M, FIXED, WROTE)
    mark_program(lanes, True)
