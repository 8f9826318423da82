"""Launches decoding over pages: the kernels of split-KV decoding with a block table."""

from typing import Any

import torch

from kernels.algorithms.split_kv.launch import flash_split_kv
from kernels.primitives.launch import TileConfig
from kernels.problem import Band, InvalidProblem
from kernels.trace import LaunchInfo


def flash_paged(
    query: torch.Tensor,
    key_pool: torch.Tensor,
    value_pool: torch.Tensor,
    table: torch.Tensor,
    *,
    band: Band,
    scale: float,
    config: TileConfig,
    **options: Any,
) -> tuple[torch.Tensor, torch.Tensor, tuple[LaunchInfo, LaunchInfo]]:
    """`flash_split_kv` with its options, on keys and values that lie in pages of config.block_n rows.

    query is (batch, q_heads, q_len, head_dim), the pools are (pages, page_size, kv_heads, head_dim), and
    table is int32 (batch, pages of a sequence). Key j of sequence b is row j % page_size of page
    table[b, j // page_size]. Every sequence has band.kv_len keys, and nothing else of the pools is read.
    Raises InvalidProblem, which names what is wrong; to see the pages of the table it waits for the device.
    """
    _ensure_fits(query, key_pool, value_pool, table, band, config)
    key, value = (pool.transpose(1, 2) for pool in (key_pool, value_pool))
    return flash_split_kv(query, key, value, table=table, band=band, scale=scale, config=config, **options)


def _ensure_fits(
    query: torch.Tensor,
    key_pool: torch.Tensor,
    value_pool: torch.Tensor,
    table: torch.Tensor,
    band: Band,
    config: TileConfig,
) -> None:
    (batch, q_heads, _, head_dim), page_size = query.shape, config.block_n
    for name, pool in (("key_pool", key_pool), ("value_pool", value_pool)):
        shape = tuple(pool.shape)
        fits = len(shape) == 4 and (shape[1], shape[3]) == (page_size, head_dim) and q_heads % shape[2] == 0
        if not fits or shape != tuple(key_pool.shape):
            accepted = f"expected (pages, {page_size}, heads that divide {q_heads}, {head_dim}) of both pools"
            raise InvalidProblem(name, shape, accepted, "A page is a key tile of block_n rows.")
        if (pool.dtype, pool.device) != (query.dtype, query.device):
            accepted = f"expected {query.dtype} on {query.device}, as query"
            raise InvalidProblem(name, (pool.dtype, pool.device), accepted)
    used = -(-band.kv_len // page_size)
    if table.dtype != torch.int32 or table.device != query.device:
        accepted = f"expected torch.int32 on {query.device}"
        raise InvalidProblem("table", (table.dtype, table.device), accepted)
    if table.ndim != 2 or len(table) != batch or table.shape[1] < used or table.stride(1) != 1:
        accepted = f"expected {batch} whole rows, one per sequence, of {used} pages or more"
        raise InvalidProblem("table", tuple(table.shape), accepted)
    first, last = (int(page) for page in table[:, :used].aminmax())
    if first < 0 or last >= len(key_pool):
        raise InvalidProblem("table", (first, last), f"its pages must be from 0 to {len(key_pool) - 1}")
