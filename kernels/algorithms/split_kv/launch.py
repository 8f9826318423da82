"""Launches the two kernels of split-KV decoding, and decides into how many parts the keys are split."""

from __future__ import annotations

from typing import NamedTuple

import torch

from kernels.algorithms.split_kv.combine import _attn_combine
from kernels.algorithms.split_kv.split import _attn_split_kv
from kernels.primitives.launch import (
    Arguments,
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


class PartialResults(NamedTuple):
    """What the first kernel writes and the second one reads, float32; n_rows is the number of packed rows."""

    o: torch.Tensor
    """(key_heads, splits, n_rows, head_dim): the output of each part."""
    lse: torch.Tensor
    """(key_heads, splits, n_rows)"""


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
    """Launch `_attn_split_kv` and `_attn_combine`.

    Arguments and results are those of `flash_forward`, with both launches. `splits` is as in `split_plan`.
    config.block_m counts packed rows: the queries of all heads that share a key head.
    """
    batch, q_heads, q_len, head_dim = query.shape
    kv_heads = key.shape[1]
    key_heads, n_rows = batch * kv_heads, q_heads // kv_heads * q_len
    plan = split_plan(band, key_heads, n_rows, config, splits)
    grid = (plan.splits, key_heads, triton.cdiv(n_rows, config.block_m))
    out = torch.empty_like(query)
    lse = torch.empty((batch, q_heads, q_len), dtype=torch.float32, device=query.device)
    partial = PartialResults(
        lse.new_empty((key_heads, plan.splits, n_rows, head_dim)),
        lse.new_empty((key_heads, plan.splits, n_rows)),
    )
    split_recorder, combine_recorder = recorders or (None, None)
    common = problem_arguments(query, key, band, scale)
    with on_device(query, config):
        split = _launch_split(query, key, value, partial, common, plan, grid, config, split_recorder)
        combine = _launch_combine(partial, out, lse, common, plan, grid[1:], config, combine_recorder)
    return out, lse, (split, combine)


def _launch_split(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    partial: PartialResults,
    common: Arguments,
    plan: SplitPlan,
    grid: tuple[int, int, int],
    config: TileConfig,
    recorder: Recorder | None,
) -> LaunchInfo:
    """Fill `partial`; `common` is what `problem_arguments` gives."""
    use_tma = can_use_tma(config, key, value)
    compiled = launch(
        _attn_split_kv,
        grid,
        query,
        *tile_arguments((key, value), (config.block_n, config.block_n), use_tma),
        *partial,
        q_strides=query.stride(),
        k_strides=key.stride(),
        v_strides=value.stride(),
        kv_heads=key.shape[1],
        first_visited=plan.first,
        end_visited=plan.end,
        splits=plan.splits,
        tiles_per_split=plan.tiles_per_split,
        RAGGED=key.shape[2] % config.block_n != 0,
        USE_TMA=use_tma,
        **common,
        **config_arguments(config, recorder),
    )
    return launch_info(config, compiled)


def _launch_combine(
    partial: PartialResults,
    out: torch.Tensor,
    lse: torch.Tensor,
    common: Arguments,
    plan: SplitPlan,
    grid: tuple[int, int],
    config: TileConfig,
    recorder: Recorder | None,
) -> LaunchInfo:
    """Fill `out` and `lse` from `partial`."""
    shared = ("group_size", "band", "DTYPE", "HEAD_DIM", "BLOCK_D")
    compiled = launch(
        _attn_combine,
        grid,
        *partial,
        out,
        lse,
        o_strides=out.stride(),
        kv_heads=partial.o.shape[0] // out.shape[0],
        splits=plan.splits,
        trace=recorder.buffers if recorder else None,
        BLOCK_M=config.block_m,
        BLOCK_S=triton.next_power_of_2(plan.splits),
        TRACE=recorder is not None,
        **{name: common[name] for name in shared},
    )
    return launch_info(config, compiled)
