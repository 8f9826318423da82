"""Launches the two kernels of split-KV decoding, and decides into how many parts the keys are split."""

from typing import NamedTuple

import torch

from kernels.algorithms.split_kv.combine import _attn_combine
from kernels.algorithms.split_kv.split import _attn_split_kv
from kernels.primitives.launch import (
    TileConfig,
    fixed_of,
    launch_info,
    launch_on_tiles,
    on_device,
    sm_count,
    strides_of,
)
from kernels.primitives.recorder import Recorder
from kernels.primitives.replay import launch
from kernels.problem import Band, tiles
from kernels.trace import LaunchInfo

import triton


class SplitPlan(NamedTuple):
    """How the keys are split: key tiles [first, end) in `splits` parts of `tiles_per_split` tiles each."""

    first: int
    end: int
    splits: int
    tiles_per_split: int


def split_plan(band: Band, key_heads: int, packed_rows: int, config: TileConfig, splits: int) -> SplitPlan:
    """The plan of a decoding call. It skips key tiles that no query sees.

    `key_heads` counts the key heads of all batches. With `splits` 0 there are as many parts as fill the
    device.
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
    table: torch.Tensor | None = None,
    recorders: tuple[Recorder, Recorder] | None = None,
) -> tuple[torch.Tensor, torch.Tensor, tuple[LaunchInfo, LaunchInfo]]:
    """Launch `_attn_split_kv` and `_attn_combine`.

    Arguments and results are those of `flash_forward`, with both launches; `splits` is as in `split_plan`.
    config.block_m counts packed rows. With a block `table`, key and value are pools, as in the kernel.
    """
    (batch, q_heads, q_len, head_dim), kv_heads = query.shape, key.shape[1]
    key_heads, n_rows = batch * kv_heads, q_heads // kv_heads * q_len
    plan = split_plan(band, key_heads, n_rows, config, splits)
    grid = (plan.splits, key_heads, triton.cdiv(n_rows, config.block_m))
    out, lse = torch.empty_like(query), query.new_empty((batch, q_heads, q_len), dtype=torch.float32)
    parts = (key_heads, plan.splits, n_rows)
    partial = lse.new_empty((*parts, head_dim)), lse.new_empty(parts)  # O and lse of each part
    split_recorder, combine_recorder = recorders or (None, None)
    split = launch_on_tiles(
        _attn_split_kv,
        grid,
        {"q": query, "k": key, "v": value},
        *partial,
        band=band,
        scale=scale,
        config=config,
        recorder=split_recorder,
        described=("k", "v") if table is None else (),
        table=table,
        table_stride=None if table is None else table.stride(0),
        first_visited=plan.first,
        end_visited=plan.end,
        splits=plan.splits,
        tiles_per_split=plan.tiles_per_split,
    )
    with on_device(query, config):
        combine = launch(
            _attn_combine,
            grid[1:],
            *partial,
            out,
            lse,
            strides=strides_of(o=out),
            kv_heads=kv_heads,
            group_size=q_heads // kv_heads,
            band=band,
            splits=plan.splits,
            trace=combine_recorder.buffers if combine_recorder else None,
            FIXED=fixed_of(query, config, combine_recorder),
            BLOCK_S=triton.next_power_of_2(plan.splits),
        )
    return out, lse, (split, launch_info(config, combine))
