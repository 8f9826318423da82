"""FlashAttention-1 forward: key tiles in the outer loop, query tiles in the inner one.

O, m and l travel to HBM and back at every step. Dao et al. 2022 (FlashAttention), algorithm 1; Chu, Liu and
Lin 2026, algorithm 4. One program per batch and head, as in Dao et al. 2022. Between steps HBM holds O
normalised and in float32: rounded to 16 bits at every step, it would lose a bit each time.
"""

from dataclasses import replace
from typing import Any

import torch

from kernels.algorithms.flash1.recording import OLD_O, QK, RESCALED, P, S, record_key_tile, record_step
from kernels.primitives.launch import TileConfig, launch_on_tiles
from kernels.primitives.masking import mask_scores
from kernels.primitives.numbers import LN2, matmul, to_operand
from kernels.primitives.online_softmax import online_softmax
from kernels.primitives.recorder import Log, record_made, record_turn
from kernels.primitives.tile_io import load_rows, load_tile, store_rows, store_tile, tile_view
from kernels.primitives.traversal import end_visited_tile, end_visiting_tile, first_visiting_tile
from kernels.trace import LaunchInfo

import triton
import triton.language as tl


@triton.jit
def _attn_fwd_kv_outer(
    query, key, value, out, state_o, state_m, state_l, lse_ptr, strides, q_heads, group_size, band,
    scale_log2, trace, max_steps, FIXED: tl.constexpr,
):  # fmt: skip
    """All tiles of one head.

    state_o is (batch, q_heads, q_len, head_dim), state_m and state_l are (batch, q_heads, q_len), all
    float32.
    """
    BLOCK_M: tl.constexpr = FIXED.BLOCK_M
    BLOCK_N: tl.constexpr = FIXED.BLOCK_N
    BLOCK_D: tl.constexpr = FIXED.BLOCK_D
    batch_head = tl.program_id(0)
    batch, head = batch_head // q_heads, batch_head % q_heads
    q_view = tile_view(query, strides.q, batch, head, band.q_len, FIXED)
    k_view = tile_view(key, strides.k, batch, head // group_size, band.kv_len, FIXED)
    v_view = tile_view(value, strides.v, batch, head // group_size, band.kv_len, FIXED)
    o_view = tile_view(out, strides.o, batch, head, band.q_len, FIXED)
    s_view = tile_view(state_o, strides.sum, batch, head, band.q_len, FIXED)
    first_row = batch_head.to(tl.int64) * band.q_len
    for kv_tile in range(0, tl.cdiv(band.kv_len, BLOCK_N)):
        # [load K, V] (BLOCK_N, BLOCK_D)
        k = load_tile(k_view, kv_tile, BLOCK_N, FIXED)
        v = load_tile(v_view, kv_tile, BLOCK_N, FIXED)
        # [end]
        first_q_tile = first_visiting_tile(kv_tile, band, BLOCK_M, BLOCK_N)
        end_q_tile = end_visiting_tile(kv_tile, band, BLOCK_M, BLOCK_N)
        first_slot = batch_head * max_steps + kv_tile * tl.cdiv(band.q_len, BLOCK_M)
        log = Log(trace.where if FIXED.TRACE else None, trace, first_slot - first_q_tile, None)
        record_key_tile(log, first_q_tile, batch_head, kv_tile, band.kv_len, FIXED)
        for q_tile in range(first_q_tile, end_q_tile):
            offs_m = q_tile * BLOCK_M + tl.arange(0, BLOCK_M)
            record_turn(log, q_tile)
            # [load Q, O, m, l] (BLOCK_M, BLOCK_D)
            q = load_tile(q_view, q_tile, BLOCK_M, FIXED)
            o = load_tile(s_view, q_tile, BLOCK_M, FIXED)
            m = load_rows(state_m + first_row, offs_m, band.q_len, float("-inf"))
            l = load_rows(state_l + first_row, offs_m, band.q_len, 0.0)
            record_made(log, q_tile, o, OLD_O)
            # [QK^T] (BLOCK_M, BLOCK_N) = (BLOCK_M, BLOCK_D) @ (BLOCK_D, BLOCK_N)
            scores = matmul(q, tl.trans(k), tl.zeros((BLOCK_M, BLOCK_N), tl.float32), FIXED)
            record_made(log, q_tile, scores, QK)
            # [mask]
            scores = mask_scores(scores, offs_m, kv_tile, band, FIXED)
            record_made(log, q_tile, scores, S)
            # [row max]
            p, m_new, l_new, alpha = online_softmax(scores, m, l, scale_log2)
            record_made(log, q_tile, p, P)
            # [rescale]
            weight = tl.where(l_new == 0.0, 0.0, 1.0 / l_new)  # rows that have seen no key so far stay 0
            o = o * (l * alpha * weight)[:, None]
            record_made(log, q_tile, o, RESCALED)
            # [PV] (BLOCK_M, BLOCK_D) += (BLOCK_M, BLOCK_N) @ (BLOCK_N, BLOCK_D)
            pv = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
            pv = matmul(to_operand(p, FIXED.DTYPE), v, pv, FIXED)
            o = o + pv * weight[:, None]
            # [store O, m, l, lse] lse at the last visit, when O takes its final type
            last_visit = kv_tile + 1 == end_visited_tile(q_tile, band, BLOCK_M, BLOCK_N)
            store_rows(state_m + first_row, offs_m, band.q_len, m_new)
            store_rows(state_l + first_row, offs_m, band.q_len, l_new)
            if last_visit:
                store_tile(o_view, o, q_tile, FIXED.DTYPE, FIXED)
                store_rows(lse_ptr + first_row, offs_m, band.q_len, m_new * LN2 + tl.log(l_new))
            else:
                store_tile(s_view, o, q_tile, tl.float32, FIXED)
            # [end]
            tl.debug_barrier()  # the next key tile's loads of O, m and l must see these stores
            record_step(
                log, q_tile, batch_head, kv_tile, band.q_len, q, k, v, m_new, l_new, alpha, o, last_visit,
                FIXED,
            )  # fmt: skip


def flash_forward_kv_outer(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, config: TileConfig, **asked: Any
) -> tuple[torch.Tensor, torch.Tensor, LaunchInfo]:
    """Launch `_attn_fwd_kv_outer`; arguments and results are those of `flash_forward`.

    The project keeps this kernel for comparison: it is slower than FlashAttention-2. Before the
    launch torch writes O = 0, l = 0 and m = -inf to HBM (Dao et al. 2022, algorithm 1, line 2); the trace
    leaves that out.
    """
    batch, q_heads = query.shape[:2]
    config = replace(config, num_stages=1)  # a load must not run ahead of the stores of the step before it
    out = torch.zeros_like(query)
    state_o = torch.zeros(query.shape, dtype=torch.float32, device=query.device)
    state_m = torch.full(query.shape[:3], float("-inf"), dtype=torch.float32, device=query.device)
    lse, state_l = state_m.clone(), torch.zeros_like(state_m)
    tensors = {"q": query, "k": key, "v": value, "o": out, "sum": state_o}
    others, grid = (state_m, state_l, lse), (batch * q_heads,)
    info = launch_on_tiles(_attn_fwd_kv_outer, grid, tensors, *others, config=config, described=(), **asked)
    return out, lse, info
