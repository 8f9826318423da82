"""Launches the two kernels of split-KV decoding, and decides into how many parts the keys are split."""

from __future__ import annotations

from typing import NamedTuple

import torch

from kernels.algorithms.split_kv.combine import _attn_combine
from kernels.algorithms.split_kv.split import _attn_split_kv
from kernels.primitives.launch import (
    TRITON_DTYPES,
    TileConfig,
    can_use_tma,
    config_arguments,
    launch_info,
    on_device,
    problem_arguments,
    sm_count,
    tile_arguments,
)
from kernels.primitives.recorder import Recorder
from kernels.problem import Band, tiles
from kernels.trace import LaunchInfo

import triton


class SplitPlan(NamedTuple):
    """How the keys are shared out: key tiles [first, end) in `splits` parts of `tiles_per_split` tiles."""

    first: int
    end: int
    splits: int
    tiles_per_split: int


def split_plan(band: Band, key_heads: int, packed_rows: int, config: TileConfig, splits: int) -> SplitPlan:
    """The plan of a decoding call. It skips key tiles that no query sees.

    `key_heads` are those of all batches. `splits` 0 takes as many parts as fill the current device.
    """
    first = tiles.first_visited_tile(0, band, band.q_len, config.block_n)
    end = max(tiles.end_visited_tile(0, band, band.q_len, config.block_n), first)
    if splits:
        splits = min(splits, max(end - first, 1))
    else:
        programs = key_heads * triton.cdiv(packed_rows, config.block_m)
        splits = tiles.splits_to_fill(programs, end - first, sm_count())
    return SplitPlan(first, end, *tiles.split_evenly(end - first, splits))


def flash_split_kv(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    band: Band,
    scale: float,
    config: TileConfig,
    splits: int = 0,
    recorders: tuple[Recorder, Recorder] | None = None,
) -> tuple[torch.Tensor, torch.Tensor, tuple[LaunchInfo, LaunchInfo]]:
    """Launch `_attn_split_kv` and `_attn_combine`; arguments and results as of `flash_forward`, with both
    launches.

    `splits` is as in `split_plan`. config.block_m counts packed rows: the queries of all heads that share a
    key head.
    """
    batch, q_heads, q_len, head_dim = query.shape
    kv_heads = key.shape[1]
    group_size, key_heads = q_heads // kv_heads, batch * kv_heads
    n_rows = group_size * q_len
    row_tiles = triton.cdiv(n_rows, config.block_m)
    plan = split_plan(band, key_heads, n_rows, config, splits)
    out = torch.empty_like(query)
    lse = torch.empty((batch, q_heads, q_len), dtype=torch.float32, device=query.device)
    partial_o = lse.new_empty((key_heads, plan.splits, n_rows, head_dim))
    partial_lse = lse.new_empty((key_heads, plan.splits, n_rows))
    use_tma = can_use_tma(config, key, value)
    split_recorder, combine_recorder = recorders or (None, None)
    with on_device(query, config):
        split = _attn_split_kv[(plan.splits, key_heads, row_tiles)](
            query,
            *tile_arguments((key, value), (config.block_n, config.block_n), use_tma),
            partial_o,
            partial_lse,
            q_strides=query.stride(),
            k_strides=key.stride(),
            v_strides=value.stride(),
            kv_heads=kv_heads,
            first_visited=plan.first,
            end_visited=plan.end,
            splits=plan.splits,
            tiles_per_split=plan.tiles_per_split,
            RAGGED=band.kv_len % config.block_n != 0,
            USE_TMA=use_tma,
            **problem_arguments(query, key, band, scale),
            **config_arguments(config, split_recorder),
        )
        combine = _attn_combine[(key_heads, row_tiles)](
            partial_o,
            partial_lse,
            out,
            lse,
            o_strides=out.stride(),
            kv_heads=kv_heads,
            group_size=group_size,
            band=band,
            splits=plan.splits,
            trace=combine_recorder.buffers if combine_recorder else None,
            DTYPE=TRITON_DTYPES[query.dtype],
            HEAD_DIM=head_dim,
            BLOCK_M=config.block_m,
            BLOCK_D=triton.next_power_of_2(head_dim),
            BLOCK_S=triton.next_power_of_2(plan.splits),
            TRACE=combine_recorder is not None,
        )
    return out, lse, (launch_info(config, split), launch_info(config, combine))
