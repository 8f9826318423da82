"""dK and dV: a key tile stays, the query tiles of all its query heads are streamed past it.

Dao 2023, algorithm 2; Chu, Liu and Lin 2026, algorithm 8. P is recomputed from lse. The products are written
so that every accumulator is used as it stands: S^T = K Q^T gives dV += P^T dO without transposing P.
"""

from kernels.algorithms.backward.recording import DP, DS, MASKED_TILE, QK, P
from kernels.algorithms.backward.recording_dk_dv import (
    HAS_DO,
    HAS_DP,
    HAS_DS,
    HAS_DV,
    HAS_P,
    HAS_Q,
    HAS_S,
    WRITE_DK,
    WRITE_DV,
    WROTE,
    record_key_tile,
    record_step,
)
from kernels.primitives.marks import RECORD, lane_of, mark, mark_program, program_number
from kernels.primitives.masking import load_lse, mask_transposed
from kernels.primitives.mods import ahead, change_scores, mods_of_head, tile_of, visits_listed
from kernels.primitives.numbers import matmul, to_operand
from kernels.primitives.recorder import Log, record_made, record_stored, record_turn
from kernels.primitives.tile_io import Stream, load_from, load_rows, load_streamed, store_tile, tile_view
from kernels.primitives.traversal import part_of_tiles, visiting_key_tile

import triton
import triton.language as tl


@triton.jit
def _attn_bwd_dk_dv_inner(
    dk, dv, k, v, q_stream, do_stream, lse_ptr, delta_ptr, first_turn, end_turn, listed, batch_head,
    kv_tile, first_k, band, own, scale_log2, log, PART: tl.constexpr, FIXED: tl.constexpr,
):  # fmt: skip
    """Query tiles of turns [first_turn, end_turn) add to dk and dv (BLOCK_N, BLOCK_D); dk lacks the scale."""
    BLOCK_M: tl.constexpr = FIXED.BLOCK_M
    BLOCK_N: tl.constexpr = FIXED.BLOCK_N
    MASKED: tl.constexpr = PART != 1
    offs_n = first_k + tl.arange(0, BLOCK_N)
    if FIXED.PATTERN.PLANNED:
        listed = ahead(listed, first_turn, PART, FIXED)
    for turn in tl.range(first_turn, end_turn):
        q_tile = tile_of(turn, listed)
        offs_m = q_tile * BLOCK_M + tl.arange(0, BLOCK_M)
        record_turn(log, turn)
        # [load Q] (BLOCK_M, BLOCK_D)
        q = load_streamed(q_stream, q_tile, BLOCK_M, FIXED)
        # [QK^T] (BLOCK_N, BLOCK_M) = (BLOCK_N, BLOCK_D) @ (BLOCK_D, BLOCK_M)
        scores_t = matmul(k, tl.trans(q), tl.zeros((BLOCK_N, BLOCK_M), tl.float32), FIXED)
        record_made(log, turn, tl.trans(scores_t), QK, HAS_S)
        if FIXED.PATTERN.CHANGES_SCORES:
            scores_t, derivative = change_scores(scores_t, offs_n, q_tile, own, True, FIXED)
        # [P from lse] (BLOCK_N, BLOCK_M)
        lse = load_lse(lse_ptr, offs_m, band, FIXED, MASKED)
        p_t = tl.exp2(scores_t * scale_log2 - lse[None, :])
        record_made(log, turn, tl.trans(p_t), P)
        if MASKED:
            # [mask]
            p_t = mask_transposed(p_t, q_tile, offs_n, band, FIXED, own, PART)
        record_made(log, turn, tl.trans(p_t), MASKED_TILE, HAS_P)
        # [load dO] (BLOCK_M, BLOCK_D)
        do = load_streamed(do_stream, q_tile, BLOCK_M, FIXED)
        # [dV] (BLOCK_N, BLOCK_D) += (BLOCK_N, BLOCK_M) @ (BLOCK_M, BLOCK_D)
        p = to_operand(p_t, FIXED.DTYPE)
        dv = matmul(p, do, dv, FIXED)
        mark(log.lane, turn, HAS_DV)
        # [dP] (BLOCK_N, BLOCK_M) = (BLOCK_N, BLOCK_D) @ (BLOCK_D, BLOCK_M)
        dp_t = matmul(v, tl.trans(do), tl.zeros((BLOCK_N, BLOCK_M), tl.float32), FIXED)
        record_made(log, turn, tl.trans(dp_t), DP, HAS_DP)
        # [dS]
        delta = load_rows(delta_ptr, offs_m, band.q_len, 0.0)
        ds_t = p_t * (dp_t - delta[None, :])
        if FIXED.PATTERN.SOFTCAP:
            ds_t *= derivative
        record_made(log, turn, tl.trans(ds_t), DS, HAS_DS)
        # [dK] (BLOCK_N, BLOCK_D) += (BLOCK_N, BLOCK_M) @ (BLOCK_M, BLOCK_D)
        ds = to_operand(ds_t, FIXED.DTYPE)
        dk = matmul(ds, q, dk, FIXED)
        # [end]
        record_step(log, turn, q_tile, batch_head, kv_tile, band, q, k, v, do, lse, delta, p_t, dk, dv, FIXED)
    return dk, dv


@triton.jit(do_not_specialize=("kv_heads",))
def _attn_bwd_dk_dv(
    query, key, value, d_out, d_key, d_value, lse_ptr, delta_ptr, strides, kv_heads, group_size, band,
    mods, scale, scale_log2, trace, lanes, max_steps, FIXED: tl.constexpr,
):  # fmt: skip
    """dK and dV of one key tile of one key head. lse and delta are (batch, q_heads, q_len) and float32."""
    mark_program(lanes, False)
    BLOCK_N: tl.constexpr = FIXED.BLOCK_N
    BLOCK_D: tl.constexpr = FIXED.BLOCK_D
    kv_tile, batch_kv_head = tl.program_id(0), tl.program_id(1)
    if FIXED.PATTERN.PLANNED:  # all heads of a tile at once: that of sinks, the longest, begins early in each
        number, heads = program_number(), tl.num_programs(1)
        kv_tile, batch_kv_head = number // heads, number % heads
    batch, kv_head = batch_kv_head // kv_heads, batch_kv_head % kv_heads
    first_k = kv_tile * BLOCK_N
    k_view = tile_view(key, strides.k, batch, kv_head, band.kv_len, FIXED)
    v_view = tile_view(value, strides.v, batch, kv_head, band.kv_len, FIXED)
    # [load K, V] (BLOCK_N, BLOCK_D)
    k = load_from(k_view, first_k, BLOCK_N, FIXED)
    v = load_from(v_view, first_k, BLOCK_N, FIXED)
    dk = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    dv = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    # [end]
    first_slot = (batch_kv_head * tl.num_programs(0) + kv_tile) * max_steps
    by_step = Log(
        trace.where if FIXED.TRACE else None,
        trace,
        first_slot,
        lane_of(lanes, 0) if lanes is not None else None,
    )
    record_key_tile(by_step, batch_kv_head * group_size, kv_tile, band.kv_len, dk, dv, FIXED)
    first, first_full, end_full, end = visiting_key_tile(kv_tile, band, FIXED.BLOCK_M, BLOCK_N)
    last_step = tl.maximum(group_size * (end - first) - 1, 0)
    done = first * 0
    for member in range(group_size):
        head = kv_head * group_size + member
        batch_head = batch * (kv_heads * group_size) + head
        shift = member * (end - first) - first  # from the number of a turn to that of the step
        own, listed = None, None
        if mods is not None:
            keys = first_k + tl.arange(0, BLOCK_N)
            own = mods_of_head(mods, batch_head, keys, band, True, FIXED)
        if FIXED.PATTERN.PLANNED:  # each head may have tiles of its own
            listed, first, first_full, end_full, end = visits_listed(mods, batch_head, kv_tile)
            shift = done
            done += end
            last_step = tl.maximum(done - 1, 0)
        lane = lane_of(lanes, 0) + shift * RECORD if lanes is not None else None
        log = Log(trace.where if FIXED.TRACE else None, trace, first_slot + shift, lane)
        q_stream = Stream(tile_view(query, strides.q, batch, head, band.q_len, FIXED), lane, HAS_Q)
        do_stream = Stream(tile_view(d_out, strides.do, batch, head, band.q_len, FIXED), lane, HAS_DO)
        rows = batch_head.to(tl.int64) * band.q_len
        for PART in tl.static_range(3):
            # Tiles that the right bound cuts, whole tiles, tiles that the left bound cuts.
            from_turn, to_turn = part_of_tiles(first, first_full, end_full, end, PART)
            before = FIXED.BOUND_RIGHT or FIXED.PATTERN.CUTS[0]
            after = FIXED.BOUND_LEFT or FIXED.PATTERN.CUTS[1]
            if (PART == 0 and before) or PART == 1 or (PART == 2 and after):
                dk, dv = _attn_bwd_dk_dv_inner(
                    dk, dv, k, v, q_stream, do_stream, lse_ptr + rows, delta_ptr + rows, from_turn, to_turn,
                    listed, batch_head, kv_tile, first_k, band, own, scale_log2, log, PART, FIXED,
                )  # fmt: skip

    # [store dK, dV]
    dk_view = tile_view(d_key, strides.dk, batch, kv_head, band.kv_len, FIXED)
    dv_view = tile_view(d_value, strides.dv, batch, kv_head, band.kv_len, FIXED)
    store_tile(dk_view, dk * scale, kv_tile, FIXED.DTYPE, FIXED)
    store_tile(dv_view, dv, kv_tile, FIXED.DTYPE, FIXED)
    # [end]
    record_stored(by_step, last_step, (WRITE_DK, WRITE_DV), kv_tile, band.kv_len, BLOCK_N, FIXED, WROTE)
    mark_program(lanes, True)
